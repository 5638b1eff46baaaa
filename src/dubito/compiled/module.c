/* The Python module: takes NumPy's arrays as buffers, checks their sizes, and lets go of the interpreter's lock. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "among.h"
#include "magnitude.h"
#include "refresh.h"
#include "steps.h"

#include <string.h>

#define MOST 17

/* The buffers of a call, so that all of them are given back together. */
typedef struct {
    Py_buffer each[MOST];
    int n;
} Buffers;

static void give_back(Buffers *buffers)
{
    while (buffers->n > 0)
        PyBuffer_Release(&buffers->each[--buffers->n]);
}

/* The memory of the next of a call's arrays, of ``count`` items; NULL, with an error, where it is not that. */
static void *take(Buffers *buffers, PyObject *arrays, Py_ssize_t count, Py_ssize_t itemsize, int flags)
{
    PyObject *array = PyTuple_GetItem(arrays, buffers->n);
    Py_buffer *buffer = &buffers->each[buffers->n];
    if (array == NULL || PyObject_GetBuffer(array, buffer, flags) < 0)
        return NULL;
    buffers->n++;
    if (buffer->len != count * itemsize) {
        PyErr_Format(PyExc_ValueError, "array %d has %zd bytes, not %zd", buffers->n - 1, buffer->len,
                     count * itemsize);
        return NULL;
    }
    return buffer->buf;
}

#define READ(type, count) (const type *)take(&buffers, arrays, count, sizeof(type), PyBUF_C_CONTIGUOUS)
#define WRITE(type, count) (type *)take(&buffers, arrays, count, sizeof(type), PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)

static PyObject *step(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Beam beam = {0};
    Threshold bar;
    Py_ssize_t m, width, n_words, n_leaves, limit;
    long long row;
    int64_t made;
    Buffers buffers = {.n = 0};
    int why = DONE;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnnndL", &PyTuple_Type, &arrays, &m, &width, &n_words, &n_leaves, &limit,
                          &bar.value, &row))
        return NULL;
    beam.m = m;
    beam.width = width;
    beam.n_words = n_words;
    beam.n_leaves = n_leaves;
    bar.row = row;
    if (!(beam.common_low = READ(double, m)) || !(beam.common_high = READ(double, m)) ||
        !(beam.near = READ(double, m * m)) || !(beam.far = READ(double, m * m)) || !(beam.scores = READ(int64_t, m)) ||
        !(beam.places = READ(int64_t, m)) || !(beam.rows = READ(int64_t, m)) ||
        !(beam.own_low = WRITE(double, width * m)) || !(beam.own_high = WRITE(double, width * m)) ||
        !(beam.order = WRITE(int32_t, width * m)) || !(beam.sets = WRITE(uint64_t, width * n_words)) ||
        !(beam.totals = WRITE(int64_t, width)) || !(beam.parents = WRITE(int32_t, limit * width)) ||
        !(beam.picks = WRITE(int32_t, limit * width)) || !(beam.heights = WRITE(double, limit * width)) ||
        !(beam.is_exact = WRITE(uint8_t, limit * width)) || !(beam.unsure = WRITE(int64_t, width))) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    made = step_beam(&beam, bar, limit, &why);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (made < 0)
        return PyErr_NoMemory();
    return Py_BuildValue("innn", why, (Py_ssize_t)made, (Py_ssize_t)beam.n_leaves, (Py_ssize_t)beam.n_unsure);
}

/* Whether all row numbers are of a matrix of n rows; with an error where not. */
static int are_rows(const int64_t *rows, Py_ssize_t many, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < many; i++) {
        if (rows[i] < 0 || rows[i] >= n) {
            PyErr_SetString(PyExc_IndexError, "there are not as many rows");
            return 0;
        }
    }
    return 1;
}

/* Whether parts, one after another, are all there is: starts (parts + 1,) that go up from 0 to n, by ``most`` at most. */
static int are_starts(const int64_t *starts, Py_ssize_t parts, Py_ssize_t n, int64_t most)
{
    int are = starts[0] == 0 && starts[parts] == n;
    for (Py_ssize_t i = 0; are && i < parts; i++)
        are = starts[i] <= starts[i + 1] && starts[i + 1] - starts[i] <= most;
    if (!are)
        PyErr_SetString(PyExc_ValueError, "parts do not come one after another, or are too large");
    return are;
}

static PyObject *first(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Py_ssize_t n, n_among, size;
    Buffers buffers = {.n = 0};
    const double *bound;
    const int64_t *among;
    int64_t *rows, found;
    Threshold next;
    int is_part, n_threads;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnpi", &PyTuple_Type, &arrays, &n, &n_among, &size, &is_part, &n_threads))
        return NULL;
    if (!(bound = READ(double, n)) || !(among = READ(int64_t, n_among)) || !(rows = WRITE(int64_t, size)) ||
        !are_rows(among, n_among, n)) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    found = first_in_order(bound, is_part ? among : NULL, is_part ? n_among : n, size, rows, &next, n_threads);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (found < 0)
        return PyErr_NoMemory();
    return Py_BuildValue("ndn", (Py_ssize_t)found, next.value, (Py_ssize_t)next.row);
}

static int take_front(Buffers *buffers, PyObject *arrays, Front *into, Py_ssize_t n)
{
    into->n = n;
    return (into->squared = take(buffers, arrays, n * n, sizeof(double), PyBUF_C_CONTIGUOUS)) &&
           (into->error = take(buffers, arrays, n, sizeof(double), PyBUF_C_CONTIGUOUS)) &&
           (into->weights = take(buffers, arrays, n, sizeof(double), PyBUF_C_CONTIGUOUS));
}

static PyObject *pick(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Front front = {0};
    Picking run = {0};
    Threshold bar;
    Py_ssize_t n, limit, n_picks;
    long long row;
    Buffers buffers = {.n = 0};
    int why;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnndpdL", &PyTuple_Type, &arrays, &n, &limit, &n_picks, &front.unit, &front.by_pick,
                          &bar.value, &row))
        return NULL;
    bar.row = row;
    run.n_picks = n_picks;
    if (!take_front(&buffers, arrays, &front, n) || !(run.low = WRITE(double, n)) || !(run.high = WRITE(double, n)) ||
        !(run.rows = READ(int64_t, n)) || !(run.picks = WRITE(int64_t, limit)) ||
        !(run.heights = WRITE(double, limit)) || !(run.is_exact = WRITE(uint8_t, limit)) ||
        !(run.unsure = WRITE(int64_t, n))) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    why = pick_greedily(&front, &run, bar, limit);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    return Py_BuildValue("inn", why, (Py_ssize_t)run.n_picks, (Py_ssize_t)run.n_unsure);
}

static PyObject *between(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Front front = {0};
    Py_ssize_t n, m, n_picks;
    Buffers buffers = {.n = 0};
    const int64_t *picks, *listed;
    double *low, *high;
    int is_done;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnndp", &PyTuple_Type, &arrays, &n, &m, &n_picks, &front.unit, &front.by_pick))
        return NULL;
    if (!take_front(&buffers, arrays, &front, n) || !(picks = READ(int64_t, n_picks)) ||
        !(listed = READ(int64_t, m)) || !(low = WRITE(double, n_picks * m)) || !(high = WRITE(double, n_picks * m)) ||
        !are_rows(picks, n_picks, n) || !are_rows(listed, m, n)) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    is_done = bounds_between(&front, picks, n_picks, listed, m, low, high);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *intervals(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Front front = {0};
    Py_ssize_t n, m, n_leaves, n_picks;
    Buffers buffers = {.n = 0};
    const int64_t *picks, *starts, *listed;
    double *low, *high;
    int is_done;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnndp", &PyTuple_Type, &arrays, &n, &m, &n_leaves, &n_picks, &front.unit,
                          &front.by_pick))
        return NULL;
    if (!take_front(&buffers, arrays, &front, n) || !(picks = READ(int64_t, n_picks)) ||
        !(starts = READ(int64_t, n_leaves + 1)) || !(listed = READ(int64_t, m)) ||
        !(low = WRITE(double, n_leaves * m)) || !(high = WRITE(double, n_leaves * m)) ||
        !are_rows(picks, n_picks, n) || !are_rows(listed, m, n) || !are_starts(starts, n_leaves, n_picks, n_picks)) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    is_done = own_intervals(&front, picks, starts, n_leaves, listed, m, low, high);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *widen(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Py_ssize_t n_matrix, n, d;
    Buffers buffers = {.n = 0};
    const uint16_t *halves;
    const int64_t *rows = NULL;
    float *out;
    int has_rows;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnp", &PyTuple_Type, &arrays, &n_matrix, &n, &d, &has_rows))
        return NULL;
    if (!(halves = READ(uint16_t, n_matrix * d)) || !(out = WRITE(float, n * d)) ||
        (has_rows && !(rows = READ(int64_t, n)))) {
        give_back(&buffers);
        return NULL;
    }
    if (rows ? !are_rows(rows, n, n_matrix) : n > n_matrix) {
        give_back(&buffers);
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_IndexError, "there are not as many rows");
    }
    Py_BEGIN_ALLOW_THREADS
    widen_rows(halves, rows, out, n, d);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    Py_RETURN_NONE;
}

/* The arrays of references: pool, what is labelled, which of its rows, picks. */
static int take_references(Buffers *buffers, PyObject *arrays, References *into, Py_ssize_t n_pool, Py_ssize_t n_others,
                           Py_ssize_t n_labelled, Py_ssize_t n_picks, Py_ssize_t d)
{
    into->n_labelled = n_labelled;
    into->n_all = n_labelled + n_picks;
    return (into->pool.data = take(buffers, arrays, n_pool * d, into->pool.itemsize, PyBUF_C_CONTIGUOUS)) &&
           (into->labelled.data = take(buffers, arrays, n_others * d, into->labelled.itemsize, PyBUF_C_CONTIGUOUS)) &&
           (into->labelled_rows = take(buffers, arrays, n_labelled, sizeof(int64_t), PyBUF_C_CONTIGUOUS)) &&
           (into->picks = take(buffers, arrays, n_picks, sizeof(int64_t), PyBUF_C_CONTIGUOUS)) &&
           are_rows(into->labelled_rows, n_labelled, n_others) && are_rows(into->picks, n_picks, n_pool);
}

static PyObject *bring_up_to_date(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Refresh task = {0};
    Space *space = &task.space;
    Py_ssize_t n, d, n_pool, n_others, n_labelled, n_picks, width, n_bounded, n_passed;
    int has_centre, has_directions, n_threads, why;
    const double *figures;
    Buffers buffers = {.n = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnnnnnnniippppi", &PyTuple_Type, &arrays, &n, &d, &n_pool, &n_others, &n_labelled,
                          &n_picks, &width, &n_bounded, &n_passed, &task.references.pool.itemsize,
                          &task.references.labelled.itemsize, &space->is_cosine, &space->in_single, &has_centre, &has_directions,
                          &n_threads))
        return NULL;
    if (n_threads < 1 || width != (has_directions ? PANEL : d) + 1) {
        PyErr_SetString(PyExc_ValueError, "there is a thread, and sketches are as wide as a panel");
        return NULL;
    }
    Py_ssize_t n_panels = (n_labelled + n_picks + PANEL - 1) / PANEL;
    if (!take_references(&buffers, arrays, &task.references, n_pool, n_others, n_labelled, n_picks, d) ||
        !(space->centre = READ(double, has_centre ? d : 0)) ||
        !(task.directions = READ(float, has_directions ? d * PANEL : 0)) ||
        !(task.panels = READ(float, n_panels * width * PANEL)) || !(figures = READ(double, N_FIGURES)) ||
        !(task.rows = READ(int64_t, n)) || !(task.seen = READ(int32_t, n)) || !(task.weights = READ(double, n)) ||
        !(task.limits = WRITE(double, n)) || !(task.squared = WRITE(double, n)) ||
        !(task.is_out = WRITE(uint8_t, n)) || !are_rows(task.rows, n, n_pool)) {
        give_back(&buffers);
        return NULL;
    }
    memcpy(&task.figures, figures, sizeof task.figures);
    space->d = d;
    space->scale = task.figures.scale;
    space->centre = has_centre ? space->centre : NULL;
    task.directions = has_directions ? task.directions : NULL;
    task.n = n;
    task.width = width;
    task.n_bounded = n_bounded;
    task.n_passed = n_passed;
    Py_BEGIN_ALLOW_THREADS
    why = refresh(&task, n_threads);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (why == NO_MEMORY)
        return PyErr_NoMemory();
    return Py_BuildValue("Onn", why == REFRESHED ? Py_True : Py_False, (Py_ssize_t)task.bounded, (Py_ssize_t)task.passed);
}

static PyObject *take_in_references(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    TakeIn task = {0};
    Space *space = &task.space;
    Py_ssize_t d, n_pool, n_others, n_labelled, n_picks, width, start, room;
    int has_centre, has_directions, n_threads, is_done;
    Buffers buffers = {.n = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnnnnnniippppddi", &PyTuple_Type, &arrays, &d, &n_pool, &n_others, &n_labelled,
                          &n_picks, &width, &start, &room, &task.references.pool.itemsize,
                          &task.references.labelled.itemsize, &space->is_cosine, &space->in_single, &has_centre,
                          &has_directions, &space->scale, &task.slack, &n_threads))
        return NULL;
    if (start < 0 || start > n_labelled + n_picks || n_labelled + n_picks > room ||
        width != (has_directions ? PANEL : d) + 1) {
        PyErr_SetString(PyExc_ValueError, "there is no room for as many references, or sketches are not as wide as a panel");
        return NULL;
    }
    if (!take_references(&buffers, arrays, &task.references, n_pool, n_others, n_labelled, n_picks, d) ||
        !(space->centre = READ(double, has_centre ? d : 0)) ||
        !(task.directions = READ(float, has_directions ? d * PANEL : 0)) || !(task.sizes = WRITE(double, room)) ||
        !(task.targets = WRITE(float, room * width)) ||
        !(task.panels = WRITE(float, (room + PANEL - 1) / PANEL * width * PANEL))) {
        give_back(&buffers);
        return NULL;
    }
    space->d = d;
    space->centre = has_centre ? space->centre : NULL;
    task.directions = has_directions ? task.directions : NULL;
    task.width = width;
    task.start = start;
    Py_BEGIN_ALLOW_THREADS
    is_done = take_in(&task, n_threads);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *closest(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Closest task = {0};
    Py_ssize_t n, k, m, stride, n_best;
    int n_threads, is_done;
    Buffers buffers = {.n = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnnni", &PyTuple_Type, &arrays, &n, &k, &m, &stride, &n_best, &n_threads))
        return NULL;
    if (stride < 1 || n_best < 1 || m < 1 || m > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "there is something to compare with, and a best of it");
        return NULL;
    }
    if (!(task.rows = READ(float, n * k)) || !(task.panels = READ(float, (m + PANEL - 1) / PANEL * k * PANEL)) ||
        !(task.offsets = READ(float, m)) || !(task.places = WRITE(int32_t, n * n_best)) ||
        !(task.largest = WRITE(float, n))) {
        give_back(&buffers);
        return NULL;
    }
    task.n = n;
    task.k = k;
    task.m = m;
    task.stride = stride;
    task.n_best = n_best;
    Py_BEGIN_ALLOW_THREADS
    is_done = find_closest(&task, n_threads);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *nearest(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Nearest task = {0};
    Space *space = &task.space;
    Py_ssize_t n, d, n_pool, block;
    int has_centre, has_weights, n_threads, is_done;
    Buffers buffers = {.n = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnnippppdddddi", &PyTuple_Type, &arrays, &n, &d, &n_pool, &block,
                          &task.pool.itemsize, &space->is_cosine, &space->in_single, &has_centre, &has_weights,
                          &space->scale, &task.grow, &task.floor, &task.unit, &task.level, &n_threads))
        return NULL;
    if (block <= 0) {
        PyErr_SetString(PyExc_ValueError, "a piece has rows");
        return NULL;
    }
    if (!(task.pool.data = take(&buffers, arrays, n_pool * d, task.pool.itemsize, PyBUF_C_CONTIGUOUS)) ||
        !(space->centre = READ(double, has_centre ? d : 0)) || !(task.panel = READ(float, d * PANEL)) ||
        !(task.sizes = READ(float, PANEL)) || !(task.weights = READ(double, has_weights ? n_pool : 0)) ||
        !(task.rows = READ(int64_t, n)) || !(task.bounds = WRITE(double, n)) ||
        !(task.nearest = WRITE(uint16_t, n)) || !(task.is_high = WRITE(uint8_t, n)) ||
        !are_rows(task.rows, n, n_pool)) {
        give_back(&buffers);
        return NULL;
    }
    space->d = d;
    space->centre = has_centre ? space->centre : NULL;
    task.weights = has_weights ? task.weights : NULL;
    task.n = n;
    task.block = block;
    Py_BEGIN_ALLOW_THREADS
    is_done = find_nearest(&task, n_threads);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *bound(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Py_ssize_t n, m, d;
    double grow, floor, unit, *bounds;
    Buffers buffers = {.n = 0};
    const float *points, *products, *sizes;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnddd", &PyTuple_Type, &arrays, &n, &m, &d, &grow, &floor, &unit))
        return NULL;
    if (!(points = READ(float, n * d)) || !(products = READ(float, n * m)) || !(sizes = READ(float, m)) ||
        !(bounds = WRITE(double, n))) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    bound_rows(points, products, sizes, bounds, n, m, d, grow, floor, unit);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    Py_RETURN_NONE;
}

static PyObject *small(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Small task = {0};
    Space *space = &task.space;
    Py_ssize_t n, d, n_pool, n_others, n_labelled, n_before, n_picks, limit, room;
    int has_centre, is_done;
    const double *figures;
    Buffers buffers = {.n = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnnnnnnniippp", &PyTuple_Type, &arrays, &n, &d, &n_pool, &n_others, &n_labelled,
                          &n_before, &n_picks, &limit, &room, &task.pool.itemsize, &task.labelled.itemsize,
                          &space->is_cosine, &space->in_single, &has_centre))
        return NULL;
    if (n_labelled < 1 || n_before < 0 || n_picks < n_before || limit > room || room > n) {
        PyErr_SetString(PyExc_ValueError, "something is labelled, and there are as many candidates as picks");
        return NULL;
    }
    if (!(task.pool.data = take(&buffers, arrays, n_pool * d, task.pool.itemsize, PyBUF_C_CONTIGUOUS)) ||
        !(task.labelled.data = take(&buffers, arrays, n_others * d, task.labelled.itemsize, PyBUF_C_CONTIGUOUS)) ||
        !(task.rows = READ(int64_t, n)) || !(task.labelled_rows = READ(int64_t, n_labelled)) ||
        !(space->centre = READ(double, has_centre ? d : 0)) || !(task.others = READ(float, n_labelled * d)) ||
        !(figures = READ(double, N_FIGURES)) || !(task.weights = READ(double, n)) ||
        !(task.bounds = WRITE(double, n)) || !(task.exact = WRITE(double, n)) || !(task.seen = WRITE(int32_t, n)) ||
        !(task.picks = WRITE(int64_t, room)) || !(task.heights = WRITE(double, room)) ||
        !(task.picked = WRITE(double, room * d)) || !are_rows(task.rows, n, n_pool) ||
        !are_rows(task.labelled_rows, n_labelled, n_others)) {
        give_back(&buffers);
        return NULL;
    }
    memcpy(&task.figures, figures, sizeof task.figures);
    space->d = d;
    space->scale = task.figures.scale;
    space->centre = has_centre ? space->centre : NULL;
    task.n = n;
    task.n_labelled = n_labelled;
    task.n_before = n_before;
    task.n_picks = n_picks;
    task.limit = limit;
    task.room = room;
    Py_BEGIN_ALLOW_THREADS
    is_done = pick_small(&task);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *closer(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Closer task = {0};
    Space *space = &task.space;
    Py_ssize_t n, d, n_pool, n_others, n_labelled, n_picks, n_members, n_cells, n_pieces;
    int has_centre, n_threads, is_done;
    Buffers buffers = {.n = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnnnnnnniipppddddi", &PyTuple_Type, &arrays, &n, &d, &n_pool, &n_others,
                          &n_labelled, &n_picks, &n_members, &n_cells, &n_pieces, &task.references.pool.itemsize,
                          &task.references.labelled.itemsize, &space->is_cosine, &space->in_single, &has_centre,
                          &space->scale, &task.grow, &task.floor, &task.unit, &n_threads))
        return NULL;
    if (!take_references(&buffers, arrays, &task.references, n_pool, n_others, n_labelled, n_picks, d) ||
        !(space->centre = READ(double, has_centre ? d : 0)) || !(task.sizes = READ(float, n_labelled + n_picks)) ||
        !(task.members = READ(int64_t, n_members)) || !(task.cell_starts = READ(int64_t, n_cells + 1)) ||
        !(task.rows = READ(int64_t, n)) || !(task.piece_starts = READ(int64_t, n_pieces + 1)) ||
        !(task.piece_cells = READ(int64_t, n_pieces)) || !(task.bounds = WRITE(double, n)) ||
        !are_rows(task.rows, n, n_pool) || !are_rows(task.members, n_members, n_labelled + n_picks) ||
        !are_rows(task.piece_cells, n_pieces, n_cells) || !are_starts(task.cell_starts, n_cells, n_members, n_members) ||
        !are_starts(task.piece_starts, n_pieces, n, PANEL)) {
        give_back(&buffers);
        return NULL;
    }
    space->d = d;
    space->centre = has_centre ? space->centre : NULL;
    task.n_pieces = n_pieces;
    Py_BEGIN_ALLOW_THREADS
    is_done = look_closer(&task, n_threads);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *multiply(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Py_ssize_t n, k, n_panels;
    Buffers buffers = {.n = 0};
    const float *rows, *panels;
    float *out;
    int n_threads, is_done;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnni", &PyTuple_Type, &arrays, &n, &k, &n_panels, &n_threads))
        return NULL;
    if (!(rows = READ(float, n * k)) || !(panels = READ(float, n_panels * k * PANEL)) ||
        !(out = WRITE(float, n * n_panels * PANEL))) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    is_done = multiply_rows(rows, panels, out, n, k, n_panels, n_threads);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *among(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Among task = {0};
    Py_ssize_t n, d, n_pool;
    Buffers buffers = {.n = 0};
    int n_threads, is_done;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnipdi", &PyTuple_Type, &arrays, &n, &d, &n_pool, &task.pool.itemsize,
                          &task.space.is_cosine, &task.space.scale, &n_threads))
        return NULL;
    if (!(task.pool.data = take(&buffers, arrays, n_pool * d, task.pool.itemsize, PyBUF_C_CONTIGUOUS)) ||
        !(task.rows = READ(int64_t, n)) || !(task.middle = READ(double, d)) || !(task.sizes = WRITE(double, n)) ||
        !(task.squared = WRITE(double, n * n)) || !are_rows(task.rows, n, n_pool)) {
        give_back(&buffers);
        return NULL;
    }
    task.space.d = d;
    task.n = n;
    Py_BEGIN_ALLOW_THREADS
    is_done = distances_among(&task, n_threads);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *largest_magnitude(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Numbers numbers = {0};
    Py_ssize_t n;
    Buffers buffers = {.n = 0};
    int n_threads;
    double found;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nii", &PyTuple_Type, &arrays, &n, &numbers.itemsize, &n_threads))
        return NULL;
    if (!(numbers.data = take(&buffers, arrays, n, numbers.itemsize, PyBUF_C_CONTIGUOUS))) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    found = magnitude(&numbers, n, n_threads);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    return found < 0.0 ? PyErr_NoMemory() : PyFloat_FromDouble(found);
}

static PyMethodDef methods[] = {
    {"pick", pick, METH_VARARGS, "Greedy picks inside a front: why they ended, how many there are, how many are unsure."},
    {"step", step, METH_VARARGS, "Steps of a beam: why they ended, how many, the configurations, how many are unsure."},
    {"intervals", intervals, METH_VARARGS, "Intervals that configurations' own picks leave to listed candidates."},
    {"between", between, METH_VARARGS, "Bounds on what picks leave to listed candidates."},
    {"first", first, METH_VARARGS, "The first candidates in order: how many, and what comes next."},
    {"widen", widen, METH_VARARGS, "Rows of half precision in single."},
    {"refresh", bring_up_to_date, METH_VARARGS, "Candidates brought up to date: False where sketches are of no use, pairs, and those passed on."},
    {"take_in", take_in_references, METH_VARARGS, "References sketched, and packed as products read them."},
    {"closest", closest, METH_VARARGS, "Each row's nearest of many columns, by products."},
    {"nearest", nearest, METH_VARARGS, "Each candidate's nearest of a few references, by products."},
    {"bound", bound, METH_VARARGS, "Upper bounds on squared distances, from products."},
    {"small", small, METH_VARARGS, "Picks of a small problem, further ones."},
    {"closer", closer, METH_VARARGS, "Candidates by all references of their cells, by products."},
    {"multiply", multiply, METH_VARARGS, "Rows by panels of columns."},
    {"among", among, METH_VARARGS, "Squared distances among rows of a pool, in float64."},
    {"magnitude", largest_magnitude, METH_VARARGS, "The largest magnitude; a NaN where there is one."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_steps", "Steps of dubito's engines, compiled; see steps.h.", 0, methods, NULL, NULL, NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__steps(void)
{
    heed_forks();
    return PyModuleDef_Init(&definition);
}
