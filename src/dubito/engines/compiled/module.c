/* The Python module: takes NumPy's arrays as buffers, checks their sizes, and lets go of the interpreter's lock. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "steps.h"

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
    front.n = n;
    bar.row = row;
    run.n_picks = n_picks;
    if (!(front.squared = READ(double, n * n)) || !(front.error = READ(double, n)) ||
        !(front.weights = READ(double, n)) || !(run.low = WRITE(double, n)) || !(run.high = WRITE(double, n)) ||
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

static PyObject *intervals(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Front front = {0};
    Py_ssize_t n, m, n_leaves, n_picks;
    Buffers buffers = {.n = 0};
    const int64_t *picks, *starts, *listed;
    double *low, *high;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnndp", &PyTuple_Type, &arrays, &n, &m, &n_leaves, &n_picks, &front.unit,
                          &front.by_pick))
        return NULL;
    front.n = n;
    if (!(front.squared = READ(double, n * n)) || !(front.error = READ(double, n)) ||
        !(front.weights = READ(double, n)) || !(picks = READ(int64_t, n_picks)) ||
        !(starts = READ(int64_t, n_leaves + 1)) || !(listed = READ(int64_t, m)) ||
        !(low = WRITE(double, n_leaves * m)) || !(high = WRITE(double, n_leaves * m))) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    own_intervals(&front, picks, starts, n_leaves, listed, m, low, high);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    Py_RETURN_NONE;
}

static PyObject *lower(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Py_ssize_t n, m;
    Buffers buffers = {.n = 0};
    const float *products, *added;
    float *nearest;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nn", &PyTuple_Type, &arrays, &m, &n))
        return NULL;
    if (!(products = READ(float, m * n)) || !(added = READ(float, m)) || !(nearest = WRITE(float, n))) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    lower_nearest(products, added, nearest, m, n);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    Py_RETURN_NONE;
}

static PyObject *exactly(PyObject *self, PyObject *args)
{
    PyObject *arrays;
    Exact run = {0};
    Py_ssize_t n, m, d, first, limit;
    Buffers buffers = {.n = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O!nnnnn", &PyTuple_Type, &arrays, &n, &m, &d, &first, &limit))
        return NULL;
    run.n = n;
    run.m = m;
    run.d = d;
    if (first >= n || limit > n) {
        PyErr_SetString(PyExc_ValueError, "there are not as many candidates");
        return NULL;
    }
    if (!(run.points = READ(double, n * d)) || !(run.references = READ(double, m * d)) ||
        !(run.weights = READ(double, n)) || !(run.left = WRITE(double, n)) || !(run.room = WRITE(double, d)) ||
        !(run.picks = WRITE(int64_t, limit)) || !(run.heights = WRITE(double, limit))) {
        give_back(&buffers);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    pick_exactly(&run, first, limit);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
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
    for (Py_ssize_t i = 0; i < n; i++) {
        if ((rows ? rows[i] : i) < 0 || (rows ? rows[i] : i) >= n_matrix) {
            give_back(&buffers);
            PyErr_SetString(PyExc_IndexError, "there are not as many rows");
            return NULL;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    widen_rows(halves, rows, out, n, d);
    Py_END_ALLOW_THREADS
    give_back(&buffers);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"pick", pick, METH_VARARGS, "Greedy picks inside a front: why they ended, how many there are, how many are unsure."},
    {"step", step, METH_VARARGS, "Steps of a beam: why they ended, how many, the configurations, how many are unsure."},
    {"intervals", intervals, METH_VARARGS, "Intervals that configurations' own picks leave to listed candidates."},
    {"lower", lower, METH_VARARGS, "Lower the nearest by the smallest of products and what each row adds."},
    {"exactly", exactly, METH_VARARGS, "Greedy picks by exact distances alone."},
    {"widen", widen, METH_VARARGS, "Rows of half precision in single."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_steps", "Steps of dubito's engines, compiled; see steps.h.", 0, methods, NULL, NULL, NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__steps(void)
{
    return PyModuleDef_Init(&definition);
}
