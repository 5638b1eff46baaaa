/* The Python module: reads NumPy arrays as buffers, checks their sizes and types, and releases the GIL. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "coverage.h"
#include "pairwise_sq_distances.h"
#include "magnitude.h"
#include "refresh.h"
#include "steps.h"

#include <limits.h>
#include <stdarg.h>
#include <string.h>

#define MAX_ARRAYS 36
#define LARGEST_SIZE ((int64_t)1 << 61)

/* The arrays of a call and their buffers. After an error (``failed``, with a Python exception set) all further checks and
   reads do nothing. */
typedef struct {
    PyObject *arrays;
    int n, failed;
    Py_buffer buffers[MAX_ARRAYS];
} Call;

static void fail(Call *call, PyObject *kind, const char *message)
{
    call->failed = 1;
    PyErr_SetString(kind, message);
}

static void expect(Call *call, int condition, const char *message)
{
    if (!call->failed && !condition)
        fail(call, PyExc_ValueError, message);
}

/* Read an argument in the format of ``letter``: L is a size of at least 0 and B any integer (both int64_t), i an int, p a
   Boolean (int), d a double. */
static void parse_argument(Call *call, PyObject *argument, char letter, void *into)
{
    if (letter == 'L' || letter == 'B') {
        int64_t number = PyLong_AsLongLong(argument);
        *(int64_t *)into = number;
        call->failed = number == -1 && PyErr_Occurred() != NULL;
        expect(call, letter == 'B' || (number >= 0 && number <= LARGEST_SIZE), "a size is negative or too large");
    } else if (letter == 'i') {
        long number = PyLong_AsLong(argument);
        *(int *)into = (int)number;
        call->failed = number == -1 && PyErr_Occurred() != NULL;
        expect(call, number >= INT_MIN && number <= INT_MAX, "a number does not fit an int");
    } else if (letter == 'p') {
        *(int *)into = PyObject_IsTrue(argument);
        call->failed = *(int *)into < 0;
    } else {
        *(double *)into = PyFloat_AsDouble(argument);
        call->failed = *(double *)into == -1.0 && PyErr_Occurred() != NULL;
    }
}

/* Read the arguments: a tuple of arrays, then one number for each letter, into the pointers. Returns 0 after an error. */
static int parse(Call *call, PyObject *args, const char *letters, ...)
{
    va_list into;
    call->n = call->failed = 0;
    if (PyTuple_Size(args) != (Py_ssize_t)strlen(letters) + 1 || !PyTuple_Check(PyTuple_GetItem(args, 0))) {
        PyErr_Format(PyExc_TypeError, "takes a tuple of arrays and %zu numbers", strlen(letters));
        return 0;
    }
    call->arrays = PyTuple_GetItem(args, 0);
    va_start(into, letters);
    for (Py_ssize_t i = 0; letters[i] != '\0' && !call->failed; i++)
        parse_argument(call, PyTuple_GetItem(args, i + 1), letters[i], va_arg(into, void *));
    va_end(into);
    return !call->failed;
}

/* The product of two sizes; an error if it is too large. */
static int64_t times(Call *call, int64_t one, int64_t other)
{
    expect(call, other == 0 || one <= LARGEST_SIZE / other, "an array is too large");
    return call->failed ? 0 : one * other;
}

/* The kind of a number type: floating point, signed or unsigned. 0 for bytes and structures: of their arrays, only the size is
   checked. */
#define KIND(type)                                                                                       \
    _Generic((type *)0, double *: 'f', float *: 'f', int64_t *: 'i', int32_t *: 'i', uint64_t *: 'u', \
             uint16_t *: 'u', uint8_t *: 'u', default: 0)

static int kind_of(const Py_buffer *buffer)
{
    const char *format = buffer->format == NULL ? "B" : buffer->format;
    int one = 1, is_little = *(char *)&one;
    if (*format == '@' || *format == '=' || *format == (is_little ? '<' : '>'))
        format++;
    if (format[0] == '\0' || format[1] != '\0')
        return 0;
    return strchr("efd", *format) ? 'f' : strchr("bhilqn", *format) ? 'i' : strchr("BHILQN?", *format) ? 'u' : 0;
}

/* The memory of the next array, which must have ``count`` items of this kind and item size; NULL after an error. */
static void *take(Call *call, int64_t count, int64_t itemsize, int kind, int flags)
{
    if (call->failed)
        return NULL;
    PyObject *array = PyTuple_GetItem(call->arrays, call->n);
    Py_buffer *buffer = &call->buffers[call->n];
    call->failed = array == NULL || PyObject_GetBuffer(array, buffer, flags | PyBUF_FORMAT) < 0;
    if (call->failed)
        return NULL;
    call->n++;
    if (buffer->len != times(call, count, itemsize) && !call->failed) {
        call->failed = 1;
        PyErr_Format(PyExc_ValueError, "array %d has %zd bytes, not %lld", call->n - 1, buffer->len,
                     (long long)(count * itemsize));
    }
    if (!call->failed && count > 0 && kind != 0 && (kind_of(buffer) != kind || buffer->itemsize != itemsize)) {
        call->failed = 1;
        PyErr_Format(PyExc_TypeError, "array %d has items of the type %s", call->n - 1, buffer->format);
    }
    expect(call, count == 0 || (uintptr_t)buffer->buf % (uintptr_t)(itemsize % 8 == 0 ? 8 : itemsize % 4 == 0 ? 4 : itemsize) == 0,
           "an array is not aligned");
    return call->failed ? NULL : buffer->buf;
}

/* A matrix of float16, float32 or float64. */
static const void *take_matrix(Call *call, int64_t rows, int64_t d, int itemsize)
{
    expect(call, itemsize == 2 || itemsize == 4 || itemsize == 8, "numbers have 2, 4 or 8 bytes");
    return take(call, times(call, rows, d), itemsize, 'f', PyBUF_C_CONTIGUOUS);
}

/* The macros expect a pointer ``call``. */
#define PARSE(letters, ...) parse(call, args, letters, __VA_ARGS__)
#define READ(type, count) (const type *)take(call, count, sizeof(type), KIND(type), PyBUF_C_CONTIGUOUS)
#define WRITE(type, count) (type *)take(call, count, sizeof(type), KIND(type), PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)

/* An optional array: NULL if it is missing, in which case the caller passes an empty array. */
#define READ_IF(has, type, count) (const type *)take_if(call, has, count, sizeof(type), KIND(type))

static const void *take_if(Call *call, int has, int64_t count, int64_t itemsize, int kind)
{
    const void *memory = take(call, has ? count : 0, itemsize, kind, PyBUF_C_CONTIGUOUS);
    return has ? memory : NULL;
}

/* Run ``work`` without the GIL unless an error occurred, then release the buffers. */
#define RUN(work)                \
    if (!call->failed) {       \
        Py_BEGIN_ALLOW_THREADS   \
        work;                    \
        Py_END_ALLOW_THREADS     \
    }                            \
    while (call->n > 0)          \
        PyBuffer_Release(&call->buffers[--call->n])

/* The result of a call: None, or NULL after an error; unless ``is_done``, the error is MemoryError. */
static PyObject *finish_call(const Call *call, int is_done)
{
    if (call->failed)
        return NULL;
    if (!is_done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* Check that a row number is in [0, n). */
static void expect_row(Call *call, int64_t row, int64_t n)
{
    if (!call->failed && (row < 0 || row >= n))
        fail(call, PyExc_IndexError, "row number out of range");
}

static void expect_rows(Call *call, const int64_t *rows, int64_t count, int64_t n)
{
    for (int64_t i = 0; !call->failed && i < count; i++)
        expect_row(call, rows[i], n);
}

/* Check that starts (parts + 1,) increase from 0 to n, by at most ``most`` each. */
static void expect_starts(Call *call, const int64_t *starts, int64_t parts, int64_t n, int64_t most)
{
    int is_valid = call->failed || (starts[0] == 0 && starts[parts] == n);
    for (int64_t i = 0; !call->failed && is_valid && i < parts; i++)
        is_valid = starts[i] <= starts[i + 1] && starts[i + 1] - starts[i] <= most;
    expect(call, is_valid, "starts must increase from 0 to the number of rows in small enough steps");
}

static void take_front(Call *call, Front *into)
{
    into->squared = READ(double, times(call, into->n, into->n));
    into->error = READ(double, into->n);
    into->weights = READ(double, into->n);
}

/* The arrays of references: the pool, the matrix of labeled points, the rows used of it, and picks. */
static void take_references(Call *call, References *into, int64_t n_pool, int64_t n_others, int64_t n_picks, int64_t d)
{
    into->n_all = into->n_labeled + n_picks;
    into->pool.data = take_matrix(call, n_pool, d, into->pool.itemsize);
    into->labeled.data = take_matrix(call, n_others, d, into->labeled.itemsize);
    into->labeled_rows = READ(int64_t, into->n_labeled);
    into->picks = READ(int64_t, n_picks);
    expect_rows(call, into->labeled_rows, into->n_labeled, n_others);
    expect_rows(call, into->picks, n_picks, n_pool);
}

static void take_constants(Call *call, Constants *into, Space *space)
{
    const double *constants = READ(double, N_CONSTANTS);
    if (constants != NULL)
        memcpy(into, constants, sizeof *into);
    space->scale = into->scale;
}

static PyObject *py_step_beam(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Beam beam = {0};
    Threshold threshold;
    int64_t limit, made = 0;
    int why = DONE;
    if (!PARSE("LLLLLdB", &beam.m, &beam.width, &beam.n_words, &beam.n_leaves, &limit, &threshold.value, &threshold.row))
        return NULL;
    int64_t m = beam.m, width = beam.width;
    beam.common_low = READ(double, m);
    beam.common_high = READ(double, m);
    beam.near = READ(double, times(call, m, m));
    beam.far = READ(double, times(call, m, m));
    beam.scores = READ(int64_t, m);
    beam.positions = READ(int64_t, m);
    beam.rows = READ(int64_t, m);
    beam.own_low = WRITE(double, times(call, width, m));
    beam.own_high = WRITE(double, times(call, width, m));
    beam.order = WRITE(int32_t, times(call, width, m));
    beam.sets = WRITE(uint64_t, times(call, width, beam.n_words));
    beam.totals = WRITE(int64_t, width);
    beam.parents = WRITE(int32_t, times(call, limit, width));
    beam.picks = WRITE(int32_t, times(call, limit, width));
    beam.pick_priorities = WRITE(double, times(call, limit, width));
    beam.is_exact = WRITE(uint8_t, times(call, limit, width));
    beam.unsure = WRITE(int64_t, width);
    expect(call, m >= 1 && width >= 1 && m <= INT32_MAX && width <= INT32_MAX && beam.n_leaves <= width,
           "needs a list, and no more configurations than the width");
    expect_rows(call, beam.positions, m, times(call, beam.n_words, 64));
    for (int64_t i = 0; !call->failed && i < beam.n_leaves * m; i++)
        expect_row(call, beam.order[i], m);
    RUN(made = step_beam(&beam, threshold, limit, &why));
    if (call->failed || made < 0)
        return finish_call(call, 0);
    return Py_BuildValue("iLLL", why, (long long)made, (long long)beam.n_leaves, (long long)beam.n_unsure);
}

static PyObject *py_first_in_order(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    int64_t n, n_subset, size, n_written = 0;
    Threshold next = {0};
    int has_subset, n_threads;
    if (!PARSE("LLLpi", &n, &n_subset, &size, &has_subset, &n_threads))
        return NULL;
    const double *bound = READ(double, n);
    const int64_t *subset = READ(int64_t, n_subset);
    int64_t *rows = WRITE(int64_t, size);
    expect_rows(call, subset, n_subset, n);
    RUN(n_written = first_in_order(bound, has_subset ? subset : NULL, has_subset ? n_subset : n, size, rows, &next, n_threads));
    if (call->failed || n_written < 0)
        return finish_call(call, 0);
    return Py_BuildValue("LdL", (long long)n_written, next.value, (long long)next.row);
}

static PyObject *py_pick_greedily(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Front front = {0};
    Picking run = {0};
    Threshold threshold;
    int64_t limit;
    int why = DONE;
    if (!PARSE("LLLdpdB", &front.n, &limit, &run.n_picks, &front.unit, &front.by_pick, &threshold.value, &threshold.row))
        return NULL;
    take_front(call, &front);
    run.low = WRITE(double, front.n);
    run.high = WRITE(double, front.n);
    run.rows = READ(int64_t, front.n);
    run.picks = WRITE(int64_t, limit);
    run.pick_priorities = WRITE(double, limit);
    run.is_exact = WRITE(uint8_t, limit);
    run.unsure = WRITE(int64_t, front.n);
    expect(call, front.n >= 1, "needs a candidate");
    RUN(why = pick_greedily(&front, &run, threshold, limit));
    if (call->failed)
        return NULL;
    return Py_BuildValue("iLL", why, (long long)run.n_picks, (long long)run.n_unsure);
}

static PyObject *py_bounds_between(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Front front = {0};
    int64_t m, n_picks;
    int is_done = 0;
    if (!PARSE("LLLdp", &front.n, &m, &n_picks, &front.unit, &front.by_pick))
        return NULL;
    take_front(call, &front);
    const int64_t *picks = READ(int64_t, n_picks), *listed = READ(int64_t, m);
    double *low = WRITE(double, times(call, n_picks, m)), *high = WRITE(double, times(call, n_picks, m));
    expect_rows(call, picks, n_picks, front.n);
    expect_rows(call, listed, m, front.n);
    RUN(is_done = bounds_between(&front, picks, n_picks, listed, m, low, high));
    return finish_call(call, is_done);
}

static PyObject *py_own_intervals(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Front front = {0};
    int64_t m, n_leaves, n_picks;
    int is_done = 0;
    if (!PARSE("LLLLdp", &front.n, &m, &n_leaves, &n_picks, &front.unit, &front.by_pick))
        return NULL;
    take_front(call, &front);
    const int64_t *picks = READ(int64_t, n_picks), *starts = READ(int64_t, n_leaves + 1), *listed = READ(int64_t, m);
    double *low = WRITE(double, times(call, n_leaves, m)), *high = WRITE(double, times(call, n_leaves, m));
    expect_rows(call, picks, n_picks, front.n);
    expect_rows(call, listed, m, front.n);
    expect_starts(call, starts, n_leaves, n_picks, n_picks);
    RUN(is_done = own_intervals(&front, picks, starts, n_leaves, listed, m, low, high));
    return finish_call(call, is_done);
}

static PyObject *py_float16_rows(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    int64_t n_matrix, n, d;
    int has_rows;
    if (!PARSE("LLLp", &n_matrix, &n, &d, &has_rows))
        return NULL;
    const uint16_t *halves = READ(uint16_t, times(call, n_matrix, d));
    float *out = WRITE(float, times(call, n, d));
    const int64_t *rows = has_rows ? READ(int64_t, n) : NULL, last = n - 1;
    expect_rows(call, has_rows ? rows : &last, has_rows ? n : n > 0, n_matrix);
    RUN(float16_rows(halves, rows, out, n, d));
    return finish_call(call, 1);
}

static PyObject *py_refresh(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Refresh task = {0};
    Space *space = &task.space;
    References *references = &task.references;
    int64_t n_pool, n_others, n_picks;
    int has_center, has_directions, n_threads, why = REFRESHED;
    if (!PARSE("LLLLLLLLLiippppi", &task.n, &space->d, &n_pool, &n_others, &references->n_labeled, &n_picks, &task.width,
               &task.n_bounded, &task.n_passed, &references->pool.itemsize, &references->labeled.itemsize,
               &space->is_cosine, &space->in_single, &has_center, &has_directions, &n_threads))
        return NULL;
    expect(call, n_threads >= 1 && task.width == (has_directions ? PANEL : space->d) + 1,
           "n_threads must be positive and sketches as wide as a panel");
    take_references(call, references, n_pool, n_others, n_picks, space->d);
    space->center = READ_IF(has_center, double, space->d);
    task.directions = READ_IF(has_directions, float, times(call, space->d, PANEL));
    task.panels = READ(float, times(call, times(call, (references->n_all + PANEL - 1) / PANEL, task.width), PANEL));
    take_constants(call, &task.constants, space);
    task.rows = READ(int64_t, task.n);
    task.seen = READ(int32_t, task.n);
    task.weights = READ(double, task.n);
    task.limits = WRITE(double, task.n);
    task.squared = WRITE(double, task.n);
    task.is_unfinished = WRITE(uint8_t, task.n);
    expect_rows(call, task.rows, task.n, n_pool);
    for (int64_t i = 0; !call->failed && i < task.n; i++)
        expect_row(call, task.seen[i], references->n_all + 1);
    RUN(why = refresh(&task, n_threads));
    if (call->failed || why == NO_MEMORY)
        return finish_call(call, 0);
    return Py_BuildValue("OLL", why == REFRESHED ? Py_True : Py_False, (long long)task.bounded, (long long)task.passed);
}

static PyObject *py_pack_references(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    PackReferences task = {0};
    Space *space = &task.space;
    References *references = &task.references;
    int64_t n_pool, n_others, n_picks, capacity;
    int has_center, has_directions, n_threads, is_done = 0;
    if (!PARSE("LLLLLLLLiippppddi", &space->d, &n_pool, &n_others, &references->n_labeled, &n_picks, &task.width,
               &task.start, &capacity, &references->pool.itemsize, &references->labeled.itemsize, &space->is_cosine,
               &space->in_single, &has_center, &has_directions, &space->scale, &task.slack, &n_threads))
        return NULL;
    int64_t n_all = references->n_labeled + n_picks;
    expect(call, task.start >= 0 && task.start <= n_all && n_all <= capacity &&
           task.width == (has_directions ? PANEL : space->d) + 1,
           "too many references, or sketches are not as wide as a panel");
    take_references(call, references, n_pool, n_others, n_picks, space->d);
    space->center = READ_IF(has_center, double, space->d);
    task.directions = READ_IF(has_directions, float, times(call, space->d, PANEL));
    task.sizes = WRITE(double, capacity);
    task.targets = WRITE(float, times(call, capacity, task.width));
    task.panels = WRITE(float, times(call, times(call, (capacity + PANEL - 1) / PANEL, task.width), PANEL));
    RUN(is_done = pack_references(&task, n_threads));
    return finish_call(call, is_done);
}

static PyObject *py_top_k(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    TopK task = {0};
    int n_threads, is_done = 0;
    if (!PARSE("LLLLLi", &task.n, &task.k, &task.m, &task.stride, &task.n_best, &n_threads))
        return NULL;
    expect(call, task.stride >= 1 && task.n_best >= 1 && task.m >= 1 && task.m <= INT32_MAX,
           "stride, n_best and the number of columns must be positive");
    task.rows = READ(float, times(call, task.n, task.k));
    task.panels = READ(float, times(call, times(call, (task.m + PANEL - 1) / PANEL, task.k), PANEL));
    task.offsets = READ(float, task.m);
    task.columns = WRITE(int32_t, times(call, task.n, task.n_best));
    task.largest = WRITE(float, task.n);
    RUN(is_done = top_k(&task, n_threads));
    return finish_call(call, is_done);
}

static PyObject *py_anchor_bounds(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    AnchorBounds task = {0};
    Space *space = &task.space;
    int64_t n_pool;
    int has_center, has_weights, n_threads, is_done = 0;
    if (!PARSE("LLLLippppdddddi", &task.n, &space->d, &n_pool, &task.block, &task.pool.itemsize, &space->is_cosine,
               &space->in_single, &has_center, &has_weights, &space->scale, &task.grow, &task.floor, &task.unit,
               &task.level, &n_threads))
        return NULL;
    expect(call, task.block > 0, "block must be positive");
    task.pool.data = take_matrix(call, n_pool, space->d, task.pool.itemsize);
    space->center = READ_IF(has_center, double, space->d);
    task.panel = READ(float, times(call, space->d, PANEL));
    task.sizes = READ(float, PANEL);
    task.weights = READ_IF(has_weights, double, n_pool);
    task.rows = READ(int64_t, task.n);
    task.bounds = WRITE(double, task.n);
    task.nearest = WRITE(uint16_t, task.n);
    task.is_high = WRITE(uint8_t, task.n);
    expect_rows(call, task.rows, task.n, n_pool);
    RUN(is_done = anchor_bounds(&task, n_threads));
    return finish_call(call, is_done);
}

static PyObject *py_bound_rows(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    int64_t n, m, d;
    double grow, floor, unit;
    if (!PARSE("LLLddd", &n, &m, &d, &grow, &floor, &unit))
        return NULL;
    const float *points = READ(float, times(call, n, d)), *products = READ(float, times(call, n, m)), *sizes = READ(float, m);
    double *bounds = WRITE(double, n);
    RUN(bound_rows(points, products, sizes, bounds, n, m, d, grow, floor, unit));
    return finish_call(call, 1);
}

static PyObject *py_pick_small(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Small task = {0};
    Space *space = &task.space;
    int64_t n_pool, n_others, n_columns;
    int has_center, is_done = 0;
    if (!PARSE("LLLLLLLLLiipppp", &task.n, &space->d, &n_pool, &n_others, &task.n_labeled, &task.n_before, &task.n_picks,
               &task.limit, &task.capacity, &task.pool.itemsize, &task.labeled.itemsize, &space->is_cosine,
               &space->in_single, &has_center, &task.is_bounded))
        return NULL;
    expect(call, task.n_labeled >= 1 && task.n_before >= 0 && task.n_picks >= task.n_before && task.n_picks <= task.capacity &&
           task.limit <= task.capacity && task.capacity <= task.n, "needs labeled points, and at least as many candidates as picks");
    task.pool.data = take_matrix(call, n_pool, space->d, task.pool.itemsize);
    task.labeled.data = take_matrix(call, n_others, space->d, task.labeled.itemsize);
    task.rows = READ(int64_t, task.n);
    task.labeled_rows = READ(int64_t, task.n_labeled);
    space->center = READ_IF(has_center, double, space->d);
    task.others = READ(float, times(call, task.n_labeled, space->d));
    n_columns = (task.n_labeled + PANEL - 1) / PANEL * PANEL;
    task.panels = WRITE(float, times(call, n_columns, space->d));
    task.sizes = WRITE(float, n_columns);
    take_constants(call, &task.constants, space);
    task.weights = READ(double, task.n);
    task.bounds = WRITE(double, task.n);
    task.exact = WRITE(double, task.n);
    task.seen = WRITE(int32_t, task.n);
    task.picks = WRITE(int64_t, task.capacity);
    task.pick_priorities = WRITE(double, task.capacity);
    task.picked = WRITE(double, times(call, task.capacity, space->d));
    expect_rows(call, task.rows, task.n, n_pool);
    expect_rows(call, task.labeled_rows, task.n_labeled, n_others);
    expect_rows(call, task.picks, task.n_picks, task.n);
    RUN(is_done = (task.n_picks > task.n_before || init_small(&task)) && pick_small(&task));
    return finish_call(call, is_done);
}

static PyObject *py_cell_bounds(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    CellBounds task = {0};
    Space *space = &task.space;
    References *references = &task.references;
    int64_t n, n_pool, n_others, n_picks, n_members, n_cells;
    int has_center, n_threads, is_done = 0;
    if (!PARSE("LLLLLLLLLiipppddddi", &n, &space->d, &n_pool, &n_others, &references->n_labeled, &n_picks, &n_members,
               &n_cells, &task.n_pieces, &references->pool.itemsize, &references->labeled.itemsize, &space->is_cosine,
               &space->in_single, &has_center, &space->scale, &task.grow, &task.floor, &task.unit, &n_threads))
        return NULL;
    take_references(call, references, n_pool, n_others, n_picks, space->d);
    space->center = READ_IF(has_center, double, space->d);
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
    RUN(is_done = cell_bounds(&task, n_threads));
    return finish_call(call, is_done);
}

static PyObject *py_multiply_rows(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    int64_t n, k, n_panels;
    int n_threads, is_done = 0;
    if (!PARSE("LLLi", &n, &k, &n_panels, &n_threads))
        return NULL;
    const float *rows = READ(float, times(call, n, k)), *panels = READ(float, times(call, times(call, n_panels, k), PANEL));
    float *out = WRITE(float, times(call, times(call, n, n_panels), PANEL));
    RUN(is_done = multiply_rows(rows, panels, out, n, k, n_panels, n_threads));
    return finish_call(call, is_done);
}

static PyObject *py_pairwise_sq_distances(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    PairwiseDistances task = {0};
    Space *space = &task.space;
    int64_t n_pool;
    int n_threads, is_done = 0;
    if (!PARSE("LLLipdi", &task.n, &space->d, &n_pool, &task.pool.itemsize, &space->is_cosine, &space->scale, &n_threads))
        return NULL;
    task.pool.data = take_matrix(call, n_pool, space->d, task.pool.itemsize);
    task.rows = READ(int64_t, task.n);
    task.middle = READ(double, space->d);
    task.sizes = WRITE(double, task.n);
    task.squared = WRITE(double, times(call, task.n, task.n));
    expect_rows(call, task.rows, task.n, n_pool);
    RUN(is_done = pairwise_sq_distances(&task, n_threads));
    return finish_call(call, is_done);
}

static PyObject *py_magnitude(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Numbers numbers = {0};
    int64_t n;
    int n_threads;
    double largest = 0.0;
    if (!PARSE("Lii", &n, &numbers.itemsize, &n_threads))
        return NULL;
    numbers.data = take_matrix(call, n, 1, numbers.itemsize);
    RUN(largest = magnitude(&numbers, n, n_threads));
    return call->failed || largest < 0.0 ? finish_call(call, 0) : PyFloat_FromDouble(largest);
}

/* A matrix, which is empty if C cannot read it, the center of a space, and the constants of coverage. */
static void take_space(Call *call, Space *space, CoverageConstants *constants, Numbers *pool, int64_t n_pool, int has_center)
{
    const double *numbers;
    pool->data = pool->itemsize > 0 ? take_matrix(call, n_pool, space->d, pool->itemsize) : READ_IF(0, char, 0);
    space->center = READ_IF(has_center, double, space->d);
    numbers = READ(double, N_COVERAGE_CONSTANTS);
    if (numbers != NULL)
        memcpy(constants, numbers, sizeof *constants);
    space->scale = constants->scale;
}

#define ENDS(codes) &(codes).ends[0], &(codes).ends[1], &(codes).ends[2], &(codes).ends[3]

/* Set the numbers of codes from the ends of levels; fine codes have one level. */
static void set_levels(Points *points)
{
    points->codes.n_codes = points->codes.ends[LEVELS - 1];
    points->fine.ends[LEVELS - 1] = points->fine.n_codes;
}

/* Check that squared distances, and twice the products, of codes stay below NO_CODE. */
static void expect_levels(Call *call, const Codes *codes)
{
    int64_t most = 0, start = 0;
    int is_valid = codes->n_codes % 4 == 0 && codes->step > 0.0 && codes->ends[LEVELS - 1] == codes->n_codes;
    for (int level = 0; level < LEVELS && is_valid; start = codes->ends[level++]) {
        is_valid = codes->ends[level] >= start && codes->ends[level] <= MOST_FINE_CODES && codes->ends[level] % 4 == 0;
        most = 4 * most + 2 * 255 * 127 * (codes->ends[level] - start);
    }
    expect(call, is_valid && most < NO_CODE, "levels of codes out of range");
}

static void take_codes(Call *call, Codes *into, int64_t n)
{
    expect_levels(call, into);
    into->codes = READ(int8_t, times(call, n + TILE, into->n_codes));
    into->sizes = READ(int32_t, into->n_codes ? 2 * n : 0);
    into->errors = READ(float, into->n_codes ? n : 0);
}

static void take_points(Call *call, Points *into, int64_t n_matrix, int64_t d)
{
    into->head = READ(float, times(call, into->n + TILE, into->k));
    into->full = READ_IF(into->has_full, float, times(call, into->n, d));
    into->length = READ(float, into->n);
    into->rows = READ(int64_t, into->n);
    take_codes(call, &into->codes, into->n);
    take_codes(call, &into->fine, into->n);
    expect(call, into->codes.n_codes > 0 && into->codes.n_codes <= MOST_CODES && into->fine.ends[LEVELS - 2] == 0,
           "codes of a wrong width");
    expect_rows(call, into->rows, into->n, n_matrix);
}

static PyObject *py_encode_points(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Codes codes = {0};
    int64_t n, k;
    int n_threads, is_done = 0;
    if (!PARSE("LLLLLLdi", &n, &k, ENDS(codes), &codes.step, &n_threads))
        return NULL;
    codes.n_codes = codes.ends[LEVELS - 1];
    expect_levels(call, &codes);
    expect(call, k >= 0 && k <= codes.n_codes, "codes of a wrong width");
    const float *points = READ(float, times(call, n, k));
    codes.codes = WRITE(int8_t, times(call, n, codes.n_codes));
    codes.sizes = WRITE(int32_t, 2 * n);
    codes.errors = WRITE(float, n);
    RUN(is_done = encode_points(points, n, k, &codes, n_threads));
    return finish_call(call, is_done);
}

static PyObject *py_read_points(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    PointReader task = {0};
    Space *space = &task.space;
    Points *points = &task.points;
    int64_t n_matrix;
    int has_center, n_threads, is_done = 0;
    if (!PARSE("LLLLLLLLLLdddppipppi", &space->d, &n_matrix, &points->n, &points->k, ENDS(points->codes),
               &points->fine.n_codes, &task.n_panels, &points->codes.step, &points->fine.step, &task.error, &task.is_whole,
               &points->has_full, &points->matrix.itemsize, &space->is_cosine, &space->in_single, &has_center, &n_threads))
        return NULL;
    set_levels(points);
    expect_levels(call, &points->codes);
    expect_levels(call, &points->fine);
    int64_t width = points->k - !task.is_whole;
    expect(call, points->n >= 0 && width >= 0 && points->k <= points->codes.n_codes && points->matrix.itemsize > 0 &&
           (points->fine.n_codes == 0 || space->d <= points->fine.n_codes) &&
           width <= (task.n_panels ? task.n_panels * PANEL : space->d), "heads of a wrong width");
    take_space(call, space, &task.constants, &points->matrix, n_matrix, has_center);
    points->rows = READ(int64_t, points->n);
    task.order = READ(int64_t, space->d);
    task.directions = READ_IF(task.n_panels > 0, float, times(call, times(call, task.n_panels, space->d), PANEL));
    task.head = WRITE(float, times(call, points->n + TILE, points->k));
    task.full = WRITE(float, points->has_full ? times(call, points->n, space->d) : 0);
    task.length = WRITE(float, points->n);
    Codes *each[] = {&points->codes, &points->fine};
    for (int i = 0; i < 2; i++) {
        int64_t n_coded = each[i]->n_codes ? points->n : 0;
        each[i]->codes = WRITE(int8_t, times(call, points->n + TILE, each[i]->n_codes));
        each[i]->sizes = WRITE(int32_t, 2 * n_coded);
        each[i]->errors = WRITE(float, n_coded);
    }
    expect_rows(call, points->rows, points->n, n_matrix);
    expect_rows(call, task.order, space->d, space->d);
    if (!points->has_full)
        task.full = NULL;
    RUN(is_done = read_points(&task, n_threads));
    return finish_call(call, is_done);
}

static PyObject *py_take_rows(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    int64_t n_from, n, row_bytes;
    int n_threads, is_done = 0;
    if (!PARSE("LLLi", &n_from, &n, &row_bytes, &n_threads))
        return NULL;
    const uint8_t *from = READ(uint8_t, times(call, n_from, row_bytes));
    const int64_t *order = READ(int64_t, n);
    uint8_t *to = WRITE(uint8_t, times(call, n, row_bytes));
    expect_rows(call, order, n, n_from);
    RUN(is_done = take_rows(from, order, n, row_bytes, to, n_threads));
    return finish_call(call, is_done);
}

static PyObject *py_find_nearest(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Nearest task = {0};
    Space *space = &task.space;
    Points *points = &task.points, *others = &task.others;
    int64_t n_pool, n_others;
    int has_center, n_threads, is_done = 0;
    if (!PARSE("LLLLLLLLLLLLLLLLdddppiipppi", &space->d, &n_pool, &n_others, &points->n, &others->n, &points->k,
               ENDS(points->codes), &points->fine.n_codes, &task.n_leaves, &task.n_other_leaves, &task.n_cells,
               &task.first, &task.n_pieces, &points->codes.step, &points->fine.step, &points->slack, &points->has_full,
               &others->has_full, &points->matrix.itemsize, &others->matrix.itemsize, &space->is_cosine, &space->in_single,
               &has_center, &n_threads))
        return NULL;
    int64_t n_panels = (task.n_cells + PANEL - 1) / PANEL;
    set_levels(points);
    others->k = points->k;
    others->codes = points->codes;
    others->fine = points->fine;
    expect(call, task.first >= 0 && task.n_pieces >= 0 && task.first + task.n_pieces <= task.n_leaves && points->matrix.itemsize > 0 &&
           others->matrix.itemsize > 0, "leaves out of range");
    take_space(call, space, &task.constants, &points->matrix, n_pool, has_center);
    others->matrix.data = take_matrix(call, n_others, space->d, others->matrix.itemsize);
    take_points(call, points, n_pool, space->d);
    take_points(call, others, n_others, space->d);
    task.squared = WRITE(double, points->n);
    task.starts = READ(int64_t, task.n_leaves + 1);
    task.cells = READ(int64_t, task.n_leaves);
    task.other_starts = READ(int64_t, task.n_other_leaves + 1);
    task.other_cells = READ(int64_t, task.n_other_leaves);
    task.edges = READ(float, task.n_other_leaves * task.n_cells);
    task.longest = READ(float, task.n_other_leaves);
    task.centers = READ(float, n_panels * points->k * PANEL);
    task.gaps = READ(float, task.n_cells * task.n_cells);
    task.slack = READ(float, task.n_cells * task.n_cells);
    expect_starts(call, task.starts, task.n_leaves, points->n, MOST_ROWS);
    expect_starts(call, task.other_starts, task.n_other_leaves, others->n, PANEL);
    expect_rows(call, task.cells, task.n_leaves, task.n_cells);
    expect_rows(call, task.other_cells, task.n_other_leaves, task.n_cells);
    RUN(is_done = find_nearest(&task, n_threads));
    return finish_call(call, is_done);
}

static PyObject *py_search_pairs(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    PairSearch task = {0};
    Space *space = &task.space;
    Points *points = &task.points;
    int64_t n_matrix, n_rows, n_candidates, n_sums;
    int has_center, fills_edges, n_threads, is_done = 0;
    if (!PARSE("LLLLLLLLLLLLLLLLLLdddpippppi", &space->d, &n_matrix, &n_rows, &n_candidates, &points->n, &points->k,
               ENDS(points->codes), &points->fine.n_codes, &task.n_leaves, &task.n_cells, &n_sums, &task.first,
               &task.n_pieces, &task.n_pairs, &task.capacity, &points->codes.step, &points->fine.step, &points->slack,
               &points->has_full, &points->matrix.itemsize, &space->is_cosine, &space->in_single, &has_center, &fills_edges,
               &n_threads))
        return NULL;
    int64_t n_panels = (task.n_cells + PANEL - 1) / PANEL;
    set_levels(points);
    expect(call, task.first >= 0 && task.n_pieces >= 0 && task.first + task.n_pieces <= task.n_leaves && task.n_pairs >= 0,
           "leaves out of range");
    take_space(call, space, &task.constants, &points->matrix, n_matrix, has_center);
    take_points(call, points, n_matrix, space->d);
    task.numbers = READ(int64_t, points->n);
    expect_rows(call, task.numbers, points->n, n_rows);
    task.limits = READ(float, points->n);
    task.candidates = READ(int32_t, points->n);
    task.starts = READ(int64_t, task.n_leaves + 1);
    task.cells = READ(int64_t, task.n_leaves);
    task.leaves = READ(Leaf, task.n_leaves);
    task.centers = READ(float, times(call, times(call, n_panels, points->k), PANEL));
    task.edges = WRITE(float, times(call, task.n_leaves, task.n_cells));
    task.edges_by_cell = WRITE(float, times(call, task.n_leaves, task.n_cells));
    task.gaps = READ(float, times(call, task.n_cells, task.n_cells));
    task.slack = READ(float, times(call, task.n_cells, task.n_cells));
    task.covered = READ(Covered, n_rows);
    task.sums = WRITE(double, n_sums);
    task.pairs = WRITE(Pair, task.capacity);
    expect(call, n_sums == 0 || n_sums == n_candidates, "one sum for each candidate");
    expect_starts(call, task.starts, task.n_leaves, points->n, PANEL);
    expect_rows(call, task.cells, task.n_leaves, task.n_cells);
    for (int64_t i = 0; !call->failed && i < points->n; i++)
        expect(call, task.candidates[i] < n_candidates, "candidate out of range");
    if (n_sums == 0)
        task.sums = NULL;
    RUN(is_done = fills_edges ? fill_edges(&task, n_threads) : search_pairs(&task, n_threads));
    if (call->failed || !is_done)
        return finish_call(call, is_done);
    return Py_BuildValue("OL", task.is_full ? Py_True : Py_False, (long long)task.n_pairs);
}

static PyObject *py_group_pairs(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    int64_t n_pairs, n_candidates;
    int n_threads, is_done = 0;
    if (!PARSE("LLi", &n_pairs, &n_candidates, &n_threads))
        return NULL;
    const Pair *pairs = READ(Pair, n_pairs);
    int64_t *starts = WRITE(int64_t, n_candidates + 1);
    int32_t *rows = WRITE(int32_t, n_pairs);
    float *kernels = WRITE(float, n_pairs);
    RUN(is_done = group_pairs(pairs, n_pairs, n_candidates, starts, rows, kernels, n_threads));
    expect(call, is_done >= 0, "candidate out of range");
    return finish_call(call, is_done);
}

/* The arrays of a greedy run. The rows of pairs are not checked: they come from search_pairs. */
static void take_gains(Call *call, Gains *run, int64_t n_matrix, int64_t n_pairs, int64_t budget, int has_center, int has_costs)
{
    take_space(call, &run->space, &run->constants, &run->pool, n_matrix, has_center);
    run->sources = READ(int64_t, run->n);
    run->numbers = READ(int64_t, run->n);
    expect_rows(call, run->sources, run->n, n_matrix);
    expect_rows(call, run->numbers, run->n, INT32_MAX);
    run->candidates = READ(int64_t, run->n_candidates);
    run->covered = WRITE(Covered, run->n);
    run->costs = READ_IF(has_costs, double, run->n_candidates);
    run->classes = READ_IF(run->n_classes > 0, int64_t, run->n_candidates);
    run->remaining = WRITE(int64_t, run->n_classes);
    run->starts = READ(int64_t, run->n_candidates);
    run->stops = WRITE(int64_t, run->n_candidates);
    run->rows = WRITE(int32_t, n_pairs);
    run->upper = WRITE(float, n_pairs);
    run->exact = WRITE(double, n_pairs);
    run->pair_state = WRITE(uint8_t, run->n_candidates);
    run->bound = WRITE(double, run->n_candidates);
    run->stamp = WRITE(int64_t, run->n_candidates);
    run->heap = WRITE(int64_t, run->n_candidates);
    run->picks = WRITE(int64_t, budget);
    run->gained = WRITE(double, budget);
    run->state = WRITE(int64_t, 3);
    expect_rows(call, run->candidates, run->n_candidates, run->n);
    if (run->classes)
        expect_rows(call, run->classes, run->n_candidates, run->n_classes);
    for (int64_t i = 0; !call->failed && i < run->n_candidates; i++)
        expect(call, 0 <= run->starts[i] && run->starts[i] <= run->stops[i] && run->stops[i] <= n_pairs,
               "pairs out of range");
}

static PyObject *py_pick_covering(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Gains run = {0};
    int64_t n_matrix, n_pairs, budget, limit, max_work;
    int has_center, has_costs, n_threads, why = -1;
    if (!PARSE("LLLLLLLLLippppi", &run.space.d, &n_matrix, &run.n, &run.n_candidates, &run.n_classes, &n_pairs, &budget, &limit, &max_work,
               &run.pool.itemsize, &run.space.is_cosine, &run.space.in_single, &has_center, &has_costs, &n_threads))
        return NULL;
    expect(call, limit <= budget, "limit must be at most the budget");
    take_gains(call, &run, n_matrix, n_pairs, budget, has_center, has_costs);
    RUN(why = pick_covering(&run, limit, max_work, n_threads));
    if (call->failed || why < 0)
        return finish_call(call, 0);
    return PyLong_FromLong(why);
}

static PyObject *py_update_gains(PyObject *Py_UNUSED(self), PyObject *args)
{
    Call call[1];
    Gains run = {0};
    int64_t n_matrix, n_pairs, budget, count;
    int has_center, has_costs, is_exact, n_threads, is_done = 0;
    if (!PARSE("LLLLLLLLipppppi", &run.space.d, &n_matrix, &run.n, &run.n_candidates, &run.n_classes, &n_pairs, &budget, &count,
               &run.pool.itemsize, &run.space.is_cosine, &run.space.in_single, &has_center, &has_costs, &is_exact,
               &n_threads))
        return NULL;
    take_gains(call, &run, n_matrix, n_pairs, budget, has_center, has_costs);
    const int64_t *which = READ(int64_t, count);
    expect_rows(call, which, count, run.n_candidates);
    expect(call, !is_exact || run.pool.itemsize > 0, "no matrix to read");
    RUN(is_done = update_gains(&run, which, count, is_exact, n_threads));
    return finish_call(call, is_done);
}

/* dubito.native.CompiledSteps documents these functions. */
static PyMethodDef methods[] = {
    {"pick_greedily", py_pick_greedily, METH_VARARGS, NULL},
    {"step_beam", py_step_beam, METH_VARARGS, NULL},
    {"own_intervals", py_own_intervals, METH_VARARGS, NULL},
    {"bounds_between", py_bounds_between, METH_VARARGS, NULL},
    {"first_in_order", py_first_in_order, METH_VARARGS, NULL},
    {"float16_rows", py_float16_rows, METH_VARARGS, NULL},
    {"refresh", py_refresh, METH_VARARGS, NULL},
    {"pack_references", py_pack_references, METH_VARARGS, NULL},
    {"top_k", py_top_k, METH_VARARGS, NULL},
    {"anchor_bounds", py_anchor_bounds, METH_VARARGS, NULL},
    {"bound_rows", py_bound_rows, METH_VARARGS, NULL},
    {"pick_small", py_pick_small, METH_VARARGS, NULL},
    {"cell_bounds", py_cell_bounds, METH_VARARGS, NULL},
    {"multiply_rows", py_multiply_rows, METH_VARARGS, NULL},
    {"pairwise_sq_distances", py_pairwise_sq_distances, METH_VARARGS, NULL},
    {"magnitude", py_magnitude, METH_VARARGS, NULL},
    {"encode_points", py_encode_points, METH_VARARGS, NULL},
    {"read_points", py_read_points, METH_VARARGS, NULL},
    {"take_rows", py_take_rows, METH_VARARGS, NULL},
    {"find_nearest", py_find_nearest, METH_VARARGS, NULL},
    {"search_pairs", py_search_pairs, METH_VARARGS, NULL},
    {"group_pairs", py_group_pairs, METH_VARARGS, NULL},
    {"pick_covering", py_pick_covering, METH_VARARGS, NULL},
    {"update_gains", py_update_gains, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_steps", "Compiled steps of the engines; see dubito.native.CompiledSteps.", 0, methods, NULL, NULL, NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__steps(void)
{
    register_atfork();
    return PyModuleDef_Init(&definition);
}
