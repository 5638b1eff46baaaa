/* Pairs of near points: products of a few coordinates rule out nearly all of them, more coordinates and differences in
   float32 nearly all of the rest. The bounds are proved in docs/explanation/engine.md. */

#include "coverage.h"
#include "steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everything here is a bound, but exact distances, which points.c computes. */
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast")
#endif

#define CHUNK 64           /* pairs that a thread reserves at a time */
#define LABEL_PANELS 32    /* panels of labeled points that are compared before their pairs are looked at */
#define ROWS (MAX_TILES * TILE)
#define NEAR (1.0 + 1e-6)  /* more than the rounding of kernels to float32 */

/* Pack points (n, k) by columns; padded with 0. */
static void pack(const float *points, int64_t n, int64_t k, float *panel)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t column = 0; column < PANEL; column++)
            panel[i * PANEL + column] = column < n ? points[column * k + i] : 0.0f;
}

/* Flags of the products p with p + max(limit, limits) > half + halves. */
WIDE static void compare(const float *restrict products, const float *restrict halves, const float *restrict limits,
                         float half, float limit, uint8_t *restrict flags)
{
    int32_t near[PANEL];
    for (int column = 0; column < PANEL; column++) {
        float most = limits[column] > limit ? limits[column] : limit;
        near[column] = products[column] + most > halves[column] + half;
    }
    for (int column = 0; column < PANEL; column++)
        flags[column] = (uint8_t)near[column];
}

typedef float Lanes __attribute__((vector_size(sizeof(float) * LANES), aligned(sizeof(float)), may_alias));

static inline __attribute__((always_inline)) float dot(const float *one, const float *other, int64_t n)
{
    Lanes sums = {0.0f};
    float lanes[LANES], sum = 0.0f;
    for (int64_t i = 0; i < n; i += LANES)
        sums += *(const Lanes *)(one + i) * *(const Lanes *)(other + i);
    memcpy(lanes, &sums, sizeof lanes);
    for (int lane = 0; lane < LANES / 4; lane++)
        sum += (lanes[lane] + lanes[lane + 4]) + (lanes[lane + 8] + lanes[lane + 12]);
    return sum;
}

/* A lower bound on a squared distance from the product of two heads. */
static inline double from_product(const Points *left, int64_t i, const Points *right, int64_t j, double product)
{
    double squared = 2.0 * ((double)left->half[i] + right->half[j] - product);
    return squared > 0.0 ? squared : 0.0;
}

/* The same from tails, too; the second parts are looked at only if the first leave it below a limit. */
static inline __attribute__((always_inline)) double from_tails(const Points *left, int64_t i, const Points *right,
                                                               int64_t j, double product, double limit)
{
    int64_t k = left->k, t = left->t, middle = left->middle;
    const float *one = left->tail + i * t, *other = right->tail + j * t;
    double squared;
    product -= (double)left->head[i * k + k - 1] * right->head[j * k + k - 1];
    product += dot(one, other, middle);
    squared = from_product(left, i, right, j, product);
    if (middle == t || squared >= limit)
        return squared;
    product -= (double)one[left->end] * other[left->end];
    product += dot(one + middle, other + middle, t - middle);
    return from_product(left, i, right, j, product);
}

typedef struct {
    double low, high; /* of a distance */
} Interval;

static const float *view_point(const Points *points, int64_t i, const Space *space, double *scratch, float *room)
{
    return points->full ? points->full + i * space->d
                        : view_shifted(&points->matrix, points->rows[i], space, scratch, room);
}

/* Bounds on the distance of two points, one of them read already, from their difference in float32. */
static Interval from_difference(const CoverageConstants *constants, const Space *space, const float *point, double length,
                                const Points *others, int64_t other, double *scratch, float *room)
{
    const float *second = view_point(others, other, space, scratch, room);
    double apart = sqrt(squared_distance(point, second, space->d));
    double error = constants->shift * (length + apart) + constants->floor_length + constants->spread * apart;
    return (Interval){apart > error ? apart - error : 0.0, apart + error};
}

/* The position of the first flag in eight. */
static inline int first_flag(uint64_t flags)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return 7 - __builtin_ctzll(flags) / 8; /* the last one, which serves as well */
#else
    return __builtin_ctzll(flags) / 8;
#endif
}

/* Distances to labeled points */

typedef struct {
    int64_t row, other;
    double low;
} Contender;

static int64_t label_stride(const Nearest *task)
{
    int64_t n_panels = (task->others.n + PANEL - 1) / PANEL;
    return PANEL * (n_panels < LABEL_PANELS ? n_panels : LABEL_PANELS);
}

typedef struct {
    Contender *each;
    int64_t n, capacity;
} Contenders;

/* Returns 0 if memory ran out. */
static int add_contender(Contenders *found, Contender one)
{
    if (found->n == found->capacity) {
        int64_t capacity = found->capacity ? 2 * found->capacity : 256;
        Contender *each = realloc(found->each, (size_t)capacity * sizeof(Contender));
        if (each == NULL)
            return 0;
        found->each = each;
        found->capacity = capacity;
    }
    found->each[found->n++] = one;
    return 1;
}

/* A row and some labeled points, of which ``best`` was looked at. */
typedef struct {
    const Nearest *task;
    Contenders *found;
    int64_t row, start, best, many;
    const float *point;
    double length, *wide;
    float *room;
} Scan;

/* Collect the labeled points that may be nearest to a row, and lower its limit. Returns 0 if memory ran out. */
WIDE static int scan_labels(const Scan *scan, const float *products, const float *halves, const float *none, double *limit)
{
    const Nearest *task = scan->task;
    const Points *points = &task->points, *others = &task->others;
    uint8_t flags[PANEL];
    for (int64_t at = 0; at < scan->many; at += PANEL) {
        double nearest = *limit < 1e15 ? *limit * *limit * NEAR : 1e30;
        compare(products + at, halves + at, none, points->half[scan->row], (float)(0.5 * nearest), flags);
        for (int64_t group = 0; group < PANEL; group += 8) {
            uint64_t left;
            memcpy(&left, flags + group, sizeof left);
            for (; left; left &= left - 1) {
                int64_t column = at + group + first_flag(left), other = scan->start + column;
                Interval apart;
                if (column == scan->best)
                    continue;
                nearest = *limit < 1e15 ? *limit * *limit * NEAR : 1e30;
                if (points->t && from_tails(points, scan->row, others, other, products[column], nearest) >= nearest)
                    continue;
                apart = from_difference(&task->constants, &task->space, scan->point, scan->length, others, other,
                                        scan->wide, scan->room);
                *limit = apart.high < *limit ? apart.high : *limit;
                if (apart.low <= *limit && !add_contender(scan->found, (Contender){scan->row, other, apart.low}))
                    return 0;
            }
        }
    }
    return 1;
}

WIDE static int64_t index_of_largest(const float *restrict products, const float *restrict halves, int64_t n)
{
    float most = -INFINITY;
    int64_t found = 0;
    for (int64_t start = 0; start < n; start += 16) {
        float top = -INFINITY;
        for (int64_t i = start; i < start + 16; i++) {
            float value = products[i] - halves[i];
            top = value > top ? value : top;
        }
        if (top > most) {
            most = top;
            for (int64_t i = start; i < start + 16; i++)
                if (products[i] - halves[i] == top)
                    found = i;
        }
    }
    return found;
}

static void nearest_piece(void *data, int64_t piece, void *scratch)
{
    Nearest *task = data;
    const Points *points = &task->points, *others = &task->others;
    int64_t d = task->space.d, k = points->k, first = task->first + piece * ROWS, stride = label_stride(task);
    int64_t left = task->first + task->n_rows - first, n = left < ROWS ? left : ROWS, n_tiles = (n + TILE - 1) / TILE;
    int is_done = 1;
    double *one = scratch, *other = one + d, *wide = other + d;
    double *limits = wide + 2 * d;
    float *products = (float *)(limits + ROWS), *halves = products + ROWS * stride, *panel = halves + stride;
    float *shifted = panel + PANEL * k, *room = shifted + d, *none = room + d;
    Contenders found = {0};
    for (int64_t i = 0; i < PANEL; i++)
        none[i] = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        limits[i] = sqrt(task->squared[first + i] * task->constants.unit) * (1.0 + 1e-12);
    for (int64_t start = 0; is_done && start < others->n; start += stride) {
        int64_t many = others->n - start < stride ? others->n - start : stride;
        for (int64_t at = 0; at < stride; at += PANEL) {
            int64_t width = many - at < PANEL ? many - at : PANEL;
            for (int64_t i = 0; i < PANEL; i++)
                halves[at + i] = i < width ? others->half[start + at + i] : INFINITY;
            if (width > 0) {
                pack(others->head + (start + at) * k, width, k, panel);
                multiply_tiles(points->head + first * k, n_tiles, k, panel, products + at, stride, NULL);
            }
        }
        for (int64_t i = 0; is_done && i < n; i++) {
            const float *row = products + i * stride;
            int64_t padded = (many + PANEL - 1) / PANEL * PANEL, best = index_of_largest(row, halves, padded);
            double length = points->length[first + i];
            Interval apart;
            const float *point;
            if (best >= many)
                continue; /* all products overflow */
            if (from_product(points, first + i, others, start + best, row[best]) > limits[i] * limits[i])
                continue;
            point = view_point(points, first + i, &task->space, wide, shifted);
            apart = from_difference(&task->constants, &task->space, point, length, others, start + best, wide, room);
            limits[i] = apart.high < limits[i] ? apart.high : limits[i];
            is_done = add_contender(&found, (Contender){first + i, start + best, apart.low});
            if (!is_done)
                break;
            Scan scan = {task, &found, first + i, start, best, many, point, length, wide, room};
            is_done = scan_labels(&scan, row, halves, none, limits + i);
        }
    }
    for (int64_t i = 0, last = -1; is_done && i < found.n; i++) {
        Contender pair = found.each[i];
        double exact, *limit = limits + (pair.row - first);
        if (pair.low > *limit)
            continue;
        if (pair.row != last)
            read_exactly(&points->matrix, points->rows[pair.row], &task->space, wide, one);
        last = pair.row;
        read_exactly(&others->matrix, others->rows[pair.other], &task->space, wide, other);
        exact = exact_sq_distance(one, other, wide, d);
        if (exact < task->squared[pair.row]) {
            double reach = sqrt(exact * task->constants.unit) * (1.0 + 1e-12);
            task->squared[pair.row] = exact;
            *limit = reach < *limit ? reach : *limit;
        }
    }
    free(found.each);
    if (!is_done)
        cancel(&task->loop, 1);
}

int find_nearest(Nearest *task, int n_threads)
{
    int64_t d = task->space.d, stride = label_stride(task);
    task->loop = (ParallelFor){
        .work = nearest_piece,
        .task = task,
        .n_pieces = (task->n_rows + ROWS - 1) / ROWS,
        .scratch_bytes = (int64_t)sizeof(double) * (4 * d + ROWS) +
                         (int64_t)sizeof(float) * ((ROWS + 1) * stride + PANEL * (task->points.k + 1) + 2 * d)};
    return parallel_for(&task->loop, n_threads);
}

/* Bounds between leaves of different cells */

static void edge_piece(void *data, int64_t leaf, void *scratch)
{
    PairSearch *task = data;
    const Points *points = &task->points;
    int64_t first = task->starts[leaf], n = task->starts[leaf + 1] - first, n_tiles = (n + TILE - 1) / TILE;
    int64_t n_panels = (task->n_cells + PANEL - 1) / PANEL, own = task->cells[leaf], k = points->k;
    float *products = scratch, *edges = task->edges + leaf * task->n_cells;
    for (int64_t panel = 0; panel < n_panels; panel++)
        multiply_tiles(points->head + first * k, n_tiles, k, task->centers + panel * k * PANEL, products + panel * PANEL,
                       n_panels * PANEL, NULL);
    for (int64_t cell = 0; cell < task->n_cells; cell++)
        edges[cell] = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const float *row = products + i * n_panels * PANEL;
        for (int64_t cell = 0; cell < task->n_cells; cell++) {
            float value = row[cell] - row[own];
            edges[cell] = value > edges[cell] ? value : edges[cell];
        }
    }
    for (int64_t cell = 0; cell < task->n_cells; cell++)
        task->edges_by_cell[cell * task->n_leaves + leaf] = edges[cell];
}

int fill_edges(PairSearch *task, int n_threads)
{
    int64_t n_panels = (task->n_cells + PANEL - 1) / PANEL;
    task->loop = (ParallelFor){.work = edge_piece,
                               .task = task,
                               .n_pieces = task->n_leaves,
                               .scratch_bytes = (int64_t)sizeof(float) * (PANEL + TILE) * PANEL * n_panels};
    return parallel_for(&task->loop, n_threads);
}

/* The search */

/* A thread's reserved entries, and the row that it compares. */
typedef struct {
    int64_t next, end;
    double *wide;
    float *shifted, *room;
} Worker;

static void add_double(double *to, double value)
{
    uint64_t *bits = (uint64_t *)to, before = __atomic_load_n(bits, __ATOMIC_RELAXED);
    union {
        uint64_t bits;
        double number;
    } sum;
    do {
        sum.bits = before;
        sum.number += value;
    } while (!__atomic_compare_exchange_n(bits, &before, sum.bits, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

static void emit(PairSearch *task, Worker *worker, int64_t point, int32_t candidate, double squared)
{
    int64_t row = task->numbers[point];
    double near = 1.0 - squared / task->constants.scaled_reach, kernel;
    if (!(near > 0.0))
        return;
    kernel = near * near * NEAR + 1e-30;
    kernel = kernel < 1.0 ? kernel : 1.0;
    if (task->sums) {
        if (kernel > task->cover[row])
            add_double(task->sums + candidate, (kernel - task->cover[row]) * task->weights[row] + task->constants.smallest);
        return;
    }
    if (worker->next == worker->end) {
        worker->next = __atomic_fetch_add(&task->n_pairs, CHUNK, __ATOMIC_RELAXED);
        worker->end = worker->next + CHUNK;
        if (worker->end > task->capacity) {
            __atomic_store_n(&task->is_full, 1, __ATOMIC_RELAXED);
            cancel(&task->loop, 0);
        }
    }
    if (worker->end <= task->capacity)
        task->pairs[worker->next] = (Pair){(int32_t)row, candidate, (float)kernel};
    worker->next++;
}

/* Look at the flagged columns of a row's products with a leaf. */
WIDE static void look(PairSearch *task, Worker *worker, int64_t own, int64_t start, const float *products,
                      const uint8_t *flags, int wants, int is_wanted)
{
    const Points *points = &task->points;
    const float *point = NULL;
    is_wanted = is_wanted && task->candidates[own] >= 0;
    for (int64_t group = 0; group < PANEL; group += 8) {
        uint64_t left;
        memcpy(&left, flags + group, sizeof left);
        for (; left; left &= left - 1) {
            int64_t column = group + first_flag(left), other = start + column;
            double limit = wants && task->candidates[other] >= 0 ? task->limits[own] : -1.0;
            double reverse = is_wanted ? task->limits[other] : -1.0, farthest = limit > reverse ? limit : reverse;
            double squared = points->t ? from_tails(points, own, points, other, products[column], farthest)
                                       : from_product(points, own, points, other, products[column]);
            if (!(squared < farthest))
                continue;
            if (points->t && (points->full || points->matrix.data)) {
                double low;
                if (point == NULL)
                    point = view_point(points, own, &task->space, worker->wide, worker->shifted);
                low = from_difference(&task->constants, &task->space, point, points->length[own], points, other,
                                      worker->wide, worker->room).low;
                squared = low * low > squared ? low * low : squared;
            }
            if (squared < limit)
                emit(task, worker, own, task->candidates[other], squared);
            if (squared < reverse)
                emit(task, worker, other, task->candidates[own], squared);
        }
    }
}

static void search_piece(void *data, int64_t piece, void *scratch)
{
    PairSearch *task = data;
    const Points *points = &task->points;
    int64_t k = points->k, leaf = task->first + task->n_pieces - 1 - piece, d = task->space.d;
    int64_t first = task->starts[leaf], n = task->starts[leaf + 1] - first, cell = task->cells[leaf];
    Leaf own = task->leaves[leaf];
    Worker worker = {.wide = scratch};
    float *panel = (float *)(worker.wide + 2 * d) + 2 * d, *products = panel + PANEL * k;
    float halves[PANEL], limits[PANEL], none[PANEL];
    uint8_t flags[PANEL];
    worker.shifted = panel - 2 * d;
    worker.room = panel - d;
    pack(points->head + first * k, n, k, panel);
    for (int64_t i = 0; i < PANEL; i++) {
        none[i] = -INFINITY;
        halves[i] = i < n ? points->half[first + i] : INFINITY;
        limits[i] = i < n && task->limits[first + i] > 0.0f ? 0.5f * task->limits[first + i] : -INFINITY;
    }
    for (int64_t other = 0; other <= leaf && !__atomic_load_n(&task->loop.is_canceled, __ATOMIC_RELAXED); other++) {
        int64_t start = task->starts[other], stop = task->starts[other + 1], its = task->cells[other];
        Leaf far = task->leaves[other];
        int wants = far.farthest > 0.0f && own.has_candidates;
        int is_wanted = other < leaf && own.farthest > 0.0f && far.has_candidates;
        float farthest = wants ? far.farthest : -1.0f;
        farthest = is_wanted && own.farthest > farthest ? own.farthest : farthest;
        if (!(farthest > 0.0f))
            continue;
        if (its != cell) {
            double between = -(double)task->edges[leaf * task->n_cells + its] -
                             task->edges_by_cell[cell * task->n_leaves + other] -
                             task->slack[cell * task->n_cells + its] * ((double)own.longest + far.longest);
            double low = between * task->gaps[cell * task->n_cells + its];
            if (low > 0.0 && low * low >= farthest)
                continue;
        }
        multiply_tiles(points->head + start * k, (stop - start + TILE - 1) / TILE, k, panel, products, PANEL, NULL);
        for (int64_t i = start; i < stop; i++) {
            const float *row = products + (i - start) * PANEL;
            float limit = wants && task->limits[i] > 0.0f ? 0.5f * task->limits[i] : -INFINITY;
            compare(row, halves, is_wanted ? limits : none, points->half[i], limit, flags);
            look(task, &worker, i, first, row, flags, wants, is_wanted);
        }
    }
    for (; worker.next < worker.end && worker.end <= task->capacity; worker.next++)
        task->pairs[worker.next] = (Pair){0, -1, 0.0f};
}

int search_pairs(PairSearch *task, int n_threads)
{
    int64_t d = task->space.d, k = task->points.k;
    task->loop = (ParallelFor){
        .work = search_piece,
        .task = task,
        .n_pieces = task->n_pieces,
        .scratch_bytes = (int64_t)sizeof(double) * 2 * d +
                         (int64_t)sizeof(float) * (2 * d + PANEL * k + (PANEL + TILE) * PANEL)};
    return parallel_for(&task->loop, n_threads);
}

/* Sorting pairs by candidate */

#define GROUPED 65536

typedef struct {
    const Pair *pairs;
    int64_t n_pairs, *cursors;
    int32_t *rows;
    float *kernels;
} Grouping;

static void group_piece(void *data, int64_t piece, void *scratch)
{
    Grouping *task = data;
    int64_t first = piece * GROUPED, stop = first + GROUPED < task->n_pairs ? first + GROUPED : task->n_pairs;
    (void)scratch;
    for (const Pair *pair = task->pairs + first; pair < task->pairs + stop; pair++) {
        if (pair->candidate < 0)
            continue;
        int64_t at = __atomic_fetch_add(task->cursors + pair->candidate, 1, __ATOMIC_RELAXED);
        if (task->rows != NULL) {
            task->rows[at] = pair->row;
            task->kernels[at] = pair->kernel;
        }
    }
}

int group_pairs(const Pair *pairs, int64_t n_pairs, int64_t n_candidates, int64_t *starts, int32_t *rows, float *kernels,
                int n_threads)
{
    Grouping task = {pairs, n_pairs, starts, NULL, NULL};
    int64_t before = 0, n_pieces = (n_pairs + GROUPED - 1) / GROUPED;
    ParallelFor loop = {.work = group_piece, .task = &task, .n_pieces = n_pieces};
    for (int64_t i = 0; i <= n_candidates; i++)
        starts[i] = 0;
    if (!parallel_for(&loop, n_threads))
        return 0;
    for (int64_t i = 0; i <= n_candidates; i++) {
        int64_t own = starts[i];
        starts[i] = before;
        before += own;
    }
    task.rows = rows;
    task.kernels = kernels;
    loop = (ParallelFor){.work = group_piece, .task = &task, .n_pieces = n_pieces};
    if (!parallel_for(&loop, n_threads))
        return 0;
    for (int64_t i = n_candidates; i > 0; i--)
        starts[i] = starts[i - 1];
    starts[0] = 0;
    return 1;
}
