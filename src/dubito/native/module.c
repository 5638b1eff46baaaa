/* The Python module: takes NumPy's arrays as buffers, checks their sizes, and lets go of the interpreter's lock. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "pairwise_sq_distances.h"
#include "magnitude.h"
#include "refresh.h"
#include "steps.h"

#include <string.h>

#define MOST 17

_Static_assert(sizeof(long long) == sizeof(int64_t), "whole numbers are read by the format L, straight to their places");

/* A call: its arrays, and their buffers, which are given back together. Once something is wrong, with an error, nothing
   more is taken or looked at. */
typedef struct {
    PyObject *arrays;
    int n, is_wrong;
    Py_buffer each[MOST];
} Call;

/* The memory of the next of a call's arrays, of ``count`` items; NULL where it is not that. */
static void *take(Call *call, int64_t count, int64_t itemsize, int flags)
{
    if (call->is_wrong)
        return NULL;
    PyObject *array = PyTuple_GetItem(call->arrays, call->n);
    Py_buffer *buffer = &call->each[call->n];
    call->is_wrong = array == NULL || PyObject_GetBuffer(array, buffer, flags) < 0;
    if (call->is_wrong)
        return NULL;
    call->n++;
    if (buffer->len != count * itemsize) {
        call->is_wrong = 1;
        PyErr_Format(PyExc_ValueError, "array %d has %zd bytes, not %lld", call->n - 1, buffer->len,
                     (long long)(count * itemsize));
        return NULL;
    }
    return buffer->buf;
}

/* In every function ``call`` is a pointer: of the module's own, to an array of one. */
#define PARSE(format, ...) \
    (call->n = call->is_wrong = 0, PyArg_ParseTuple(args, "O!" format, &PyTuple_Type, &call->arrays, __VA_ARGS__))
#define READ_BYTES(count, itemsize) take(call, count, itemsize, PyBUF_C_CONTIGUOUS)
#define READ(type, count) (const type *)READ_BYTES(count, sizeof(type))
#define WRITE(type, count) (type *)take(call, count, sizeof(type), PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)

/* An array that is empty where there is none of it: NULL then. */
#define READ_IF(has, type, count) (const type *)take_if(call, has, count, sizeof(type))

static void *take_if(Call *call, int has, int64_t count, int64_t itemsize)
{
    void *memory = READ_BYTES(has ? count : 0, itemsize);
    return has ? memory : NULL;
}

/* Work without the interpreter's lock, if nothing is wrong; the arrays are done with after it. */
#define RUN(work)                \
    if (!call->is_wrong) {       \
        Py_BEGIN_ALLOW_THREADS   \
        work;                    \
        Py_END_ALLOW_THREADS     \
    }                            \
    while (call->n > 0)          \
        PyBuffer_Release(&call->each[--call->n])

/* What a call returns that has nothing to tell; ``is_done``: there was memory for it. */
static PyObject *answer(const Call *call, int is_done)
{
    if (call->is_wrong)
        return NULL;
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static void refuse(Call *call, PyObject *kind, const char *message)
{
    call->is_wrong = 1;
    PyErr_SetString(kind, message);
}

static void expect(Call *call, int is_so, const char *message)
{
    if (!call->is_wrong && !is_so)
        refuse(call, PyExc_ValueError, message);
}

/* All row numbers are of a matrix of n rows. */
static void expect_rows(Call *call, const int64_t *rows, int64_t many, int64_t n)
{
    for (int64_t i = 0; !call->is_wrong && i < many; i++)
        if (rows[i] < 0 || rows[i] >= n)
            refuse(call, PyExc_IndexError, "there are not as many rows");
}

/* Parts, one after another, are all there is: starts (parts + 1,) that go up from 0 to n, by ``most`` at most. */
static void expect_starts(Call *call, const int64_t *starts, int64_t parts, int64_t n, int64_t most)
{
    int are = call->is_wrong || (starts[0] == 0 && starts[parts] == n);
    for (int64_t i = 0; !call->is_wrong && are && i < parts; i++)
        are = starts[i] <= starts[i + 1] && starts[i + 1] - starts[i] <= most;
    expect(call, are, "parts do not come one after another, or are too large");
}

static void take_front(Call *call, Front *into)
{
    into->squared = READ(double, into->n * into->n);
    into->error = READ(double, into->n);
    into->weights = READ(double, into->n);
}

/* The arrays of references: pool, what is labelled, which of its rows, picks. */
static void take_references(Call *call, References *into, int64_t n_pool, int64_t n_others, int64_t n_picks, int64_t d)
{
    into->n_all = into->n_labelled + n_picks;
    into->pool.data = READ_BYTES(n_pool * d, into->pool.itemsize);
    into->labelled.data = READ_BYTES(n_others * d, into->labelled.itemsize);
    into->labelled_rows = READ(int64_t, into->n_labelled);
    into->picks = READ(int64_t, n_picks);
    expect_rows(call, into->labelled_rows, into->n_labelled, n_others);
    expect_rows(call, into->picks, n_picks, n_pool);
}

static void take_figures(Call *call, Figures *into, Space *space)
{
    const double *figures = READ(double, N_FIGURES);
    if (figures != NULL)
        memcpy(into, figures, sizeof *into);
    space->scale = into->scale;
}

static PyObject *step(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Beam beam = {0};
    Threshold bar;
    int64_t limit, made = 0;
    int why = DONE;
    if (!PARSE("LLLLLdL", &beam.m, &beam.width, &beam.n_words, &beam.n_leaves, &limit, &bar.value, &bar.row))
        return NULL;
    int64_t m = beam.m, width = beam.width;
    beam.common_low = READ(double, m);
    beam.common_high = READ(double, m);
    beam.near = READ(double, m * m);
    beam.far = READ(double, m * m);
    beam.scores = READ(int64_t, m);
    beam.places = READ(int64_t, m);
    beam.rows = READ(int64_t, m);
    beam.own_low = WRITE(double, width * m);
    beam.own_high = WRITE(double, width * m);
    beam.order = WRITE(int32_t, width * m);
    beam.sets = WRITE(uint64_t, width * beam.n_words);
    beam.totals = WRITE(int64_t, width);
    beam.parents = WRITE(int32_t, limit * width);
    beam.picks = WRITE(int32_t, limit * width);
    beam.heights = WRITE(double, limit * width);
    beam.is_exact = WRITE(uint8_t, limit * width);
    beam.unsure = WRITE(int64_t, width);
    RUN(made = step_beam(&beam, bar, limit, &why));
    if (call->is_wrong || made < 0)
        return answer(call, 0);
    return Py_BuildValue("iLLL", why, (long long)made, (long long)beam.n_leaves, (long long)beam.n_unsure);
}

static PyObject *first(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    int64_t n, n_among, size, found = 0;
    Threshold next = {0};
    int is_part, n_threads;
    if (!PARSE("LLLpi", &n, &n_among, &size, &is_part, &n_threads))
        return NULL;
    const double *bound = READ(double, n);
    const int64_t *among = READ(int64_t, n_among);
    int64_t *rows = WRITE(int64_t, size);
    expect_rows(call, among, n_among, n);
    RUN(found = first_in_order(bound, is_part ? among : NULL, is_part ? n_among : n, size, rows, &next, n_threads));
    if (call->is_wrong || found < 0)
        return answer(call, 0);
    return Py_BuildValue("LdL", (long long)found, next.value, (long long)next.row);
}

static PyObject *pick(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Front front = {0};
    Picking run = {0};
    Threshold bar;
    int64_t limit;
    int why = DONE;
    if (!PARSE("LLLdpdL", &front.n, &limit, &run.n_picks, &front.unit, &front.by_pick, &bar.value, &bar.row))
        return NULL;
    take_front(call, &front);
    run.low = WRITE(double, front.n);
    run.high = WRITE(double, front.n);
    run.rows = READ(int64_t, front.n);
    run.picks = WRITE(int64_t, limit);
    run.heights = WRITE(double, limit);
    run.is_exact = WRITE(uint8_t, limit);
    run.unsure = WRITE(int64_t, front.n);
    RUN(why = pick_greedily(&front, &run, bar, limit));
    if (call->is_wrong)
        return NULL;
    return Py_BuildValue("iLL", why, (long long)run.n_picks, (long long)run.n_unsure);
}

static PyObject *between(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Front front = {0};
    int64_t m, n_picks;
    int is_done = 0;
    if (!PARSE("LLLdp", &front.n, &m, &n_picks, &front.unit, &front.by_pick))
        return NULL;
    take_front(call, &front);
    const int64_t *picks = READ(int64_t, n_picks), *listed = READ(int64_t, m);
    double *low = WRITE(double, n_picks * m), *high = WRITE(double, n_picks * m);
    expect_rows(call, picks, n_picks, front.n);
    expect_rows(call, listed, m, front.n);
    RUN(is_done = bounds_between(&front, picks, n_picks, listed, m, low, high));
    return answer(call, is_done);
}

static PyObject *intervals(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Front front = {0};
    int64_t m, n_leaves, n_picks;
    int is_done = 0;
    if (!PARSE("LLLLdp", &front.n, &m, &n_leaves, &n_picks, &front.unit, &front.by_pick))
        return NULL;
    take_front(call, &front);
    const int64_t *picks = READ(int64_t, n_picks), *starts = READ(int64_t, n_leaves + 1), *listed = READ(int64_t, m);
    double *low = WRITE(double, n_leaves * m), *high = WRITE(double, n_leaves * m);
    expect_rows(call, picks, n_picks, front.n);
    expect_rows(call, listed, m, front.n);
    expect_starts(call, starts, n_leaves, n_picks, n_picks);
    RUN(is_done = own_intervals(&front, picks, starts, n_leaves, listed, m, low, high));
    return answer(call, is_done);
}

static PyObject *widen(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    int64_t n_matrix, n, d;
    int has_rows;
    if (!PARSE("LLLp", &n_matrix, &n, &d, &has_rows))
        return NULL;
    const uint16_t *halves = READ(uint16_t, n_matrix * d);
    float *out = WRITE(float, n * d);
    const int64_t *rows = has_rows ? READ(int64_t, n) : NULL, last = n - 1;
    expect_rows(call, has_rows ? rows : &last, has_rows ? n : n > 0, n_matrix);
    RUN(widen_rows(halves, rows, out, n, d));
    return answer(call, 1);
}

static PyObject *bring_up_to_date(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Refresh task = {0};
    Space *space = &task.space;
    References *references = &task.references;
    int64_t n_pool, n_others, n_picks;
    int has_centre, has_directions, n_threads, why = REFRESHED;
    if (!PARSE("LLLLLLLLLiippppi", &task.n, &space->d, &n_pool, &n_others, &references->n_labelled, &n_picks, &task.width,
               &task.n_bounded, &task.n_passed, &references->pool.itemsize, &references->labelled.itemsize,
               &space->is_cosine, &space->in_single, &has_centre, &has_directions, &n_threads))
        return NULL;
    expect(call, n_threads >= 1 && task.width == (has_directions ? PANEL : space->d) + 1,
           "there is a thread, and sketches are as wide as a panel");
    take_references(call, references, n_pool, n_others, n_picks, space->d);
    space->centre = READ_IF(has_centre, double, space->d);
    task.directions = READ_IF(has_directions, float, space->d * PANEL);
    task.panels = READ(float, (references->n_all + PANEL - 1) / PANEL * task.width * PANEL);
    take_figures(call, &task.figures, space);
    task.rows = READ(int64_t, task.n);
    task.seen = READ(int32_t, task.n);
    task.weights = READ(double, task.n);
    task.limits = WRITE(double, task.n);
    task.squared = WRITE(double, task.n);
    task.is_out = WRITE(uint8_t, task.n);
    expect_rows(call, task.rows, task.n, n_pool);
    RUN(why = refresh(&task, n_threads));
    if (call->is_wrong || why == NO_MEMORY)
        return answer(call, 0);
    return Py_BuildValue("OLL", why == REFRESHED ? Py_True : Py_False, (long long)task.bounded, (long long)task.passed);
}

static PyObject *take_in_references(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    TakeIn task = {0};
    Space *space = &task.space;
    References *references = &task.references;
    int64_t n_pool, n_others, n_picks, room;
    int has_centre, has_directions, n_threads, is_done = 0;
    if (!PARSE("LLLLLLLLiippppddi", &space->d, &n_pool, &n_others, &references->n_labelled, &n_picks, &task.width,
               &task.start, &room, &references->pool.itemsize, &references->labelled.itemsize, &space->is_cosine,
               &space->in_single, &has_centre, &has_directions, &space->scale, &task.slack, &n_threads))
        return NULL;
    int64_t n_all = references->n_labelled + n_picks;
    expect(call, task.start >= 0 && task.start <= n_all && n_all <= room &&
           task.width == (has_directions ? PANEL : space->d) + 1,
           "there is no room for as many references, or sketches are not as wide as a panel");
    take_references(call, references, n_pool, n_others, n_picks, space->d);
    space->centre = READ_IF(has_centre, double, space->d);
    task.directions = READ_IF(has_directions, float, space->d * PANEL);
    task.sizes = WRITE(double, room);
    task.targets = WRITE(float, room * task.width);
    task.panels = WRITE(float, (room + PANEL - 1) / PANEL * task.width * PANEL);
    RUN(is_done = take_in(&task, n_threads));
    return answer(call, is_done);
}

static PyObject *closest(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Closest task = {0};
    int n_threads, is_done = 0;
    if (!PARSE("LLLLLi", &task.n, &task.k, &task.m, &task.stride, &task.n_best, &n_threads))
        return NULL;
    expect(call, task.stride >= 1 && task.n_best >= 1 && task.m >= 1 && task.m <= INT32_MAX,
           "there is something to compare with, and a best of it");
    task.rows = READ(float, task.n * task.k);
    task.panels = READ(float, (task.m + PANEL - 1) / PANEL * task.k * PANEL);
    task.offsets = READ(float, task.m);
    task.places = WRITE(int32_t, task.n * task.n_best);
    task.largest = WRITE(float, task.n);
    RUN(is_done = find_closest(&task, n_threads));
    return answer(call, is_done);
}

static PyObject *nearest(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Nearest task = {0};
    Space *space = &task.space;
    int64_t n_pool;
    int has_centre, has_weights, n_threads, is_done = 0;
    if (!PARSE("LLLLippppdddddi", &task.n, &space->d, &n_pool, &task.block, &task.pool.itemsize, &space->is_cosine,
               &space->in_single, &has_centre, &has_weights, &space->scale, &task.grow, &task.floor, &task.unit,
               &task.level, &n_threads))
        return NULL;
    expect(call, task.block > 0, "a piece has rows");
    task.pool.data = READ_BYTES(n_pool * space->d, task.pool.itemsize);
    space->centre = READ_IF(has_centre, double, space->d);
    task.panel = READ(float, space->d * PANEL);
    task.sizes = READ(float, PANEL);
    task.weights = READ_IF(has_weights, double, n_pool);
    task.rows = READ(int64_t, task.n);
    task.bounds = WRITE(double, task.n);
    task.nearest = WRITE(uint16_t, task.n);
    task.is_high = WRITE(uint8_t, task.n);
    expect_rows(call, task.rows, task.n, n_pool);
    RUN(is_done = find_nearest(&task, n_threads));
    return answer(call, is_done);
}

static PyObject *bound(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    int64_t n, m, d;
    double grow, floor, unit;
    if (!PARSE("LLLddd", &n, &m, &d, &grow, &floor, &unit))
        return NULL;
    const float *points = READ(float, n * d), *products = READ(float, n * m), *sizes = READ(float, m);
    double *bounds = WRITE(double, n);
    RUN(bound_rows(points, products, sizes, bounds, n, m, d, grow, floor, unit));
    return answer(call, 1);
}

static PyObject *small(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Small task = {0};
    Space *space = &task.space;
    int64_t n_pool, n_others, n_columns;
    int has_centre, is_done = 0;
    if (!PARSE("LLLLLLLLLiipppp", &task.n, &space->d, &n_pool, &n_others, &task.n_labelled, &task.n_before, &task.n_picks,
               &task.limit, &task.room, &task.pool.itemsize, &task.labelled.itemsize, &space->is_cosine,
               &space->in_single, &has_centre, &task.is_bounded))
        return NULL;
    expect(call, task.n_labelled >= 1 && task.n_before >= 0 && task.n_picks >= task.n_before && task.n_picks <= task.room &&
           task.limit <= task.room && task.room <= task.n, "something is labelled, and there are as many candidates as picks");
    task.pool.data = READ_BYTES(n_pool * space->d, task.pool.itemsize);
    task.labelled.data = READ_BYTES(n_others * space->d, task.labelled.itemsize);
    task.rows = READ(int64_t, task.n);
    task.labelled_rows = READ(int64_t, task.n_labelled);
    space->centre = READ_IF(has_centre, double, space->d);
    task.others = READ(float, task.n_labelled * space->d);
    n_columns = (task.n_labelled + PANEL - 1) / PANEL * PANEL;
    task.panels = WRITE(float, n_columns * space->d);
    task.sizes = WRITE(float, n_columns);
    take_figures(call, &task.figures, space);
    task.weights = READ(double, task.n);
    task.bounds = WRITE(double, task.n);
    task.exact = WRITE(double, task.n);
    task.seen = WRITE(int32_t, task.n);
    task.picks = WRITE(int64_t, task.room);
    task.heights = WRITE(double, task.room);
    task.picked = WRITE(double, task.room * space->d);
    expect_rows(call, task.rows, task.n, n_pool);
    expect_rows(call, task.labelled_rows, task.n_labelled, n_others);
    expect_rows(call, task.picks, task.n_picks, task.n);
    RUN(is_done = (task.n_picks > task.n_before || begin_small(&task)) && pick_small(&task));
    return answer(call, is_done);
}

static PyObject *closer(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Closer task = {0};
    Space *space = &task.space;
    References *references = &task.references;
    int64_t n, n_pool, n_others, n_picks, n_members, n_cells;
    int has_centre, n_threads, is_done = 0;
    if (!PARSE("LLLLLLLLLiipppddddi", &n, &space->d, &n_pool, &n_others, &references->n_labelled, &n_picks, &n_members,
               &n_cells, &task.n_pieces, &references->pool.itemsize, &references->labelled.itemsize, &space->is_cosine,
               &space->in_single, &has_centre, &space->scale, &task.grow, &task.floor, &task.unit, &n_threads))
        return NULL;
    take_references(call, references, n_pool, n_others, n_picks, space->d);
    space->centre = READ_IF(has_centre, double, space->d);
    task.sizes = READ(float, references->n_all);
    task.members = READ(int64_t, n_members);
    task.cell_starts = READ(int64_t, n_cells + 1);
    task.rows = READ(int64_t, n);
    task.piece_starts = READ(int64_t, task.n_pieces + 1);
    task.piece_cells = READ(int64_t, task.n_pieces);
    task.bounds = WRITE(double, n);
    expect_rows(call, task.rows, n, n_pool);
    expect_rows(call, task.members, n_members, references->n_all);
    expect_rows(call, task.piece_cells, task.n_pieces, n_cells);
    expect_starts(call, task.cell_starts, n_cells, n_members, n_members);
    expect_starts(call, task.piece_starts, task.n_pieces, n, PANEL);
    RUN(is_done = look_closer(&task, n_threads));
    return answer(call, is_done);
}

static PyObject *multiply(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    int64_t n, k, n_panels;
    int n_threads, is_done = 0;
    if (!PARSE("LLLi", &n, &k, &n_panels, &n_threads))
        return NULL;
    const float *rows = READ(float, n * k), *panels = READ(float, n_panels * k * PANEL);
    float *out = WRITE(float, n * n_panels * PANEL);
    RUN(is_done = multiply_rows(rows, panels, out, n, k, n_panels, n_threads));
    return answer(call, is_done);
}

static PyObject *among(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Among task = {0};
    Space *space = &task.space;
    int64_t n_pool;
    int n_threads, is_done = 0;
    if (!PARSE("LLLipdi", &task.n, &space->d, &n_pool, &task.pool.itemsize, &space->is_cosine, &space->scale, &n_threads))
        return NULL;
    task.pool.data = READ_BYTES(n_pool * space->d, task.pool.itemsize);
    task.rows = READ(int64_t, task.n);
    task.middle = READ(double, space->d);
    task.sizes = WRITE(double, task.n);
    task.squared = WRITE(double, task.n * task.n);
    expect_rows(call, task.rows, task.n, n_pool);
    RUN(is_done = distances_among(&task, n_threads));
    return answer(call, is_done);
}

static PyObject *largest_magnitude(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Numbers numbers = {0};
    int64_t n;
    int n_threads;
    double found = 0.0;
    if (!PARSE("Lii", &n, &numbers.itemsize, &n_threads))
        return NULL;
    numbers.data = READ_BYTES(n, numbers.itemsize);
    RUN(found = magnitude(&numbers, n, n_threads));
    return call->is_wrong || found < 0.0 ? answer(call, 0) : PyFloat_FromDouble(found);
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
    register_atfork();
    return PyModuleDef_Init(&definition);
}
