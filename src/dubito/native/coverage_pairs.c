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
#pragma GCC optimize("fp-contract=fast", "no-math-errno")
#endif

#define CHUNK 64           /* pairs that a thread reserves at a time */
#define LABEL_PANELS 32    /* panels of labeled points that are compared before their pairs are looked at */
#define FAR_PANELS 4       /* the same for panels of other cells, which smaller limits may rule out */
#define PAIRS_TOGETHER 256
#define FLOOR 4e-30        /* more than squared distances of heads lose to underflow */
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
typedef float HalfLanes __attribute__((vector_size(sizeof(float) * LANES / 2)));

/* Limits (n,) on squared distances of points as limits on those of codes, -1 where there is none. ``error`` is that of the
   other points, ``added`` the error of squared distances of heads. */
WIDE static void limit_codes(const float *restrict limits, const float *restrict errors, int64_t n, float error,
                             float added, float step, int32_t *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        float reach = (sqrtf((limits[i] > 0.0f ? limits[i] : 0.0f) + added) + errors[i] + error) / step;
        float most = reach * reach * 1.00001f + 2.0f;
        out[i] = limits[i] > 0.0f ? (int32_t)(most < 1e9f ? most : 1e9f) : -1;
    }
}

static void pack_codes(const int8_t *codes, int64_t n, int64_t k, uint8_t *panel)
{
    for (int64_t i = 0; i < k; i += 4)
        for (int64_t column = 0; column < PANEL; column++)
            for (int64_t part = 0; part < 4; part++)
                panel[i * PANEL + column * 4 + part] = (uint8_t)((column < n ? codes[column * k + i + part] : 0) + 128);
}

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

/* A point and one of a leaf, and the product of their heads. */
typedef struct {
    int32_t point, column;
    float product;
} Near;

/* Keep those of the pairs whose heads are within the limits, too. Returns how many. */
WIDE static int64_t filter_heads(const Points *points, const float *limits, int64_t start, Near *pairs, int64_t n)
{
    int64_t k = points->k, whole = k / LANES * LANES, kept = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t point = pairs[i].point, other = start + pairs[i].column;
        const float *one = points->head + point * k, *two = points->head + other * k;
        float most = limits[point] > limits[other] ? limits[point] : limits[other];
        Lanes sums = {0.0f};
        for (int64_t at = 0; at < whole; at += LANES)
            sums += *(const Lanes *)(one + at) * *(const Lanes *)(two + at);
        HalfLanes half = __builtin_shufflevector(sums, sums, 0, 1, 2, 3, 4, 5, 6, 7) +
                         __builtin_shufflevector(sums, sums, 8, 9, 10, 11, 12, 13, 14, 15);
        float sum = ((half[0] + half[4]) + (half[1] + half[5])) + ((half[2] + half[6]) + (half[3] + half[7]));
        for (int64_t at = whole; at < k; at++)
            sum += one[at] * two[at];
        pairs[kept] = (Near){(int32_t)point, pairs[i].column, sum};
        kept += sum + 0.5f * most > points->half[point] + points->half[other];
    }
    return kept;
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

/* A row and some panels of labeled points; the one in column ``best`` was looked at. */
typedef struct {
    const Nearest *task;
    Contenders *found;
    int64_t row, best, n_columns;
    const int64_t *columns; /* the points */
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
    for (int64_t at = 0; at < scan->n_columns; at += PANEL) {
        double nearest = *limit < 1e15 ? *limit * *limit * NEAR : 1e30;
        compare(products + at, halves + at, none, points->half[scan->row], (float)(0.5 * nearest), flags);
        for (int64_t group = 0; group < PANEL; group += 8) {
            uint64_t left;
            memcpy(&left, flags + group, sizeof left);
            for (; left; left &= left - 1) {
                int64_t column = at + group + first_flag(left), other = scan->columns[column];
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

/* A leaf of labeled points, and a lower bound on its distances. */
typedef struct {
    double low;
    int64_t leaf;
} Far;

static int by_distance(const void *one, const void *other)
{
    const Far *left = one, *right = other;
    if (left->low != right->low)
        return left->low < right->low ? -1 : 1;
    return (left->leaf > right->leaf) - (left->leaf < right->leaf);
}

/* The rows of a piece and what is known of them; ``products`` are with the points of ``columns``, of which the last ones are
   still to be multiplied by. */
typedef struct {
    Nearest *task;
    int64_t first, n, n_columns, columns[LABEL_PANELS * PANEL];
    double *limits, *one, *other, *wide;
    float *products, *halves, *panel, *shifted, *room, *none;
    Contenders found;
} Rows;

static void multiply_panel(Rows *rows)
{
    const Points *points = &rows->task->points;
    int64_t k = points->k, first = (rows->n_columns - 1) / PANEL * PANEL;
    for (int64_t i = rows->n_columns; i < first + PANEL; i++)
        rows->halves[i] = INFINITY;
    multiply_tiles(points->head + rows->first * k, (rows->n + TILE - 1) / TILE, k, rows->panel, rows->products + first,
                   LABEL_PANELS * PANEL, NULL);
}

/* Look at what may be nearest in the columns, which are then forgotten. Returns 0 if memory ran out. */
static int compare_columns(Rows *rows)
{
    const Nearest *task = rows->task;
    const Points *points = &task->points, *others = &task->others;
    int64_t n_columns = (rows->n_columns + PANEL - 1) / PANEL * PANEL;
    int is_done = 1;
    if (rows->n_columns == 0)
        return 1;
    if (rows->n_columns < n_columns)
        multiply_panel(rows);
    for (int64_t i = 0; is_done && i < rows->n; i++) {
        const float *row = rows->products + i * LABEL_PANELS * PANEL, *point;
        int64_t best = index_of_largest(row, rows->halves, n_columns), own = rows->first + i, other;
        double length = points->length[own], *limit = rows->limits + i;
        Interval apart;
        if (best >= rows->n_columns)
            continue; /* all products overflow */
        other = rows->columns[best];
        if (from_product(points, own, others, other, row[best]) > *limit * *limit)
            continue;
        point = view_point(points, own, &task->space, rows->wide, rows->shifted);
        apart = from_difference(&task->constants, &task->space, point, length, others, other, rows->wide, rows->room);
        *limit = apart.high < *limit ? apart.high : *limit;
        if (!add_contender(&rows->found, (Contender){own, other, apart.low}))
            return 0;
        Scan scan = {task, &rows->found, own, best, n_columns, rows->columns, point, length, rows->wide, rows->room};
        is_done = scan_labels(&scan, row, rows->halves, rows->none, limit);
    }
    rows->n_columns = 0;
    return is_done;
}

/* Compare with a leaf of labeled points, together with others where there is room. Returns 0 if memory ran out. */
static int add_leaf(Rows *rows, int64_t leaf, int64_t most_columns)
{
    const Points *others = &rows->task->others;
    int64_t k = others->k;
    for (int64_t point = rows->task->other_starts[leaf]; point < rows->task->other_starts[leaf + 1]; point++) {
        int64_t column = rows->n_columns % PANEL;
        for (int64_t i = 0; i < k; i++)
            rows->panel[i * PANEL + column] = others->head[point * k + i];
        rows->halves[rows->n_columns] = others->half[point];
        rows->columns[rows->n_columns++] = point;
        if (column == PANEL - 1)
            multiply_panel(rows);
        if (rows->n_columns == most_columns && !compare_columns(rows))
            return 0;
    }
    return 1;
}

static double largest_limit(const Rows *rows)
{
    double most = 0.0;
    for (int64_t i = 0; i < rows->n; i++)
        most = rows->limits[i] > most ? rows->limits[i] : most;
    return most;
}

/* Lower bounds on the distances of the leaves from the rows. */
static void find_far(Rows *rows, int64_t leaf, float *products, float *edges, Far *far)
{
    const Nearest *task = rows->task;
    int64_t n_cells = task->n_cells, n_panels = (n_cells + PANEL - 1) / PANEL, k = task->points.k;
    int64_t cell = task->cells[leaf];
    double longest = 0.0;
    for (int64_t panel = 0; n_cells > 1 && panel < n_panels; panel++)
        multiply_tiles(task->points.head + rows->first * k, (rows->n + TILE - 1) / TILE, k,
                       task->centers + panel * k * PANEL, products + panel * PANEL, n_panels * PANEL, NULL);
    for (int64_t i = 0; i < n_cells; i++)
        edges[i] = -INFINITY;
    for (int64_t i = 0; i < rows->n; i++) {
        const float *row = products + i * n_panels * PANEL;
        longest = task->points.length[rows->first + i] > longest ? task->points.length[rows->first + i] : longest;
        for (int64_t its = 0; n_cells > 1 && its < n_cells; its++)
            edges[its] = row[its] - row[cell] > edges[its] ? row[its] - row[cell] : edges[its];
    }
    for (int64_t other = 0; other < task->n_other_leaves; other++) {
        int64_t its = task->other_cells[other], pair = cell * n_cells + its;
        double low = 0.0;
        if (its != cell) {
            low = -(double)edges[its] - task->edges[other * n_cells + cell] -
                  task->slack[pair] * (longest + task->longest[other]);
            low *= task->gaps[pair];
        }
        far[other] = (Far){low > 0.0 ? low : 0.0, other};
    }
}

static void nearest_piece(void *data, int64_t piece, void *scratch)
{
    Nearest *task = data;
    const Points *points = &task->points, *others = &task->others;
    int64_t d = task->space.d, k = points->k, leaf = task->first + piece, stride = LABEL_PANELS * PANEL, n_left = 0;
    Rows rows = {.task = task, .first = task->starts[leaf], .n = task->starts[leaf + 1] - task->starts[leaf]};
    int is_done = 1;
    rows.one = scratch;
    rows.other = rows.one + d;
    rows.wide = rows.other + d;
    rows.limits = rows.wide + 2 * d;
    Far *far = (Far *)(rows.limits + MOST_ROWS);
    rows.products = (float *)(far + task->n_other_leaves);
    rows.halves = rows.products + MOST_ROWS * stride;
    rows.panel = rows.halves + stride;
    rows.shifted = rows.panel + PANEL * k;
    rows.room = rows.shifted + d;
    rows.none = rows.room + d;
    float *edges = rows.none + PANEL, *with_centers = edges + task->n_cells;
    for (int64_t i = 0; i < PANEL; i++)
        rows.none[i] = -INFINITY;
    memset(rows.panel, 0, (size_t)(PANEL * k) * sizeof(float));
    for (int64_t i = 0; i < rows.n; i++)
        rows.limits[i] = sqrt(task->squared[rows.first + i] * task->constants.unit) * (1.0 + 1e-12);
    find_far(&rows, leaf, with_centers, edges, far);
    /* What no bound sets apart first, then the nearest. */
    for (int64_t i = 0; is_done && i < task->n_other_leaves; i++) {
        if (far[i].low > 0.0) {
            far[n_left++] = far[i];
            continue;
        }
        is_done = add_leaf(&rows, far[i].leaf, LABEL_PANELS * PANEL);
    }
    is_done = is_done && compare_columns(&rows);
    qsort(far, (size_t)n_left, sizeof(Far), by_distance);
    for (int64_t i = 0; is_done && i < n_left && far[i].low <= largest_limit(&rows); i++)
        is_done = add_leaf(&rows, far[i].leaf, FAR_PANELS * PANEL);
    is_done = is_done && compare_columns(&rows);
    for (int64_t i = 0, last = -1; is_done && i < rows.found.n; i++) {
        Contender pair = rows.found.each[i];
        double exact, *limit = rows.limits + (pair.row - rows.first);
        if (pair.low > *limit)
            continue;
        if (pair.row != last)
            read_exactly(&points->matrix, points->rows[pair.row], &task->space, rows.wide, rows.one);
        last = pair.row;
        read_exactly(&others->matrix, others->rows[pair.other], &task->space, rows.wide, rows.other);
        exact = exact_sq_distance(rows.one, rows.other, rows.wide, d);
        if (exact < task->squared[pair.row]) {
            double reach = sqrt(exact * task->constants.unit) * (1.0 + 1e-12);
            task->squared[pair.row] = exact;
            *limit = reach < *limit ? reach : *limit;
        }
    }
    free(rows.found.each);
    if (!is_done)
        cancel(&task->loop, 1);
}

int find_nearest(Nearest *task, int n_threads)
{
    int64_t d = task->space.d, stride = LABEL_PANELS * PANEL, n_panels = (task->n_cells + PANEL - 1) / PANEL;
    task->loop = (ParallelFor){
        .work = nearest_piece,
        .task = task,
        .n_pieces = task->n_pieces,
        .scratch_bytes = (int64_t)sizeof(double) * (4 * d + MOST_ROWS) + (int64_t)sizeof(Far) * task->n_other_leaves +
                         (int64_t)sizeof(float) * ((MOST_ROWS + 1) * stride + PANEL * (task->points.k + 1) + 2 * d +
                                                   task->n_cells + n_panels * MOST_ROWS * PANEL)};
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

/* What is wanted of two leaves: pairs of rows of the first with candidates of the second, and the reverse. */
typedef struct {
    int64_t start; /* of the second */
    int wants, is_wanted;
} Sides;

/* Look at a pair. ``point`` is the first, if it was read already; returns it. */
static inline __attribute__((always_inline)) const float *look(PairSearch *task, Worker *worker, const Sides *sides,
                                                               int64_t own, int64_t column, float product,
                                                               const float *point)
{
    const Points *points = &task->points;
    int64_t other = sides->start + column;
    double limit = sides->wants && task->candidates[other] >= 0 ? task->limits[own] : -1.0;
    double reverse = sides->is_wanted && task->candidates[own] >= 0 ? task->limits[other] : -1.0;
    double farthest = limit > reverse ? limit : reverse;
    double squared = points->t ? from_tails(points, own, points, other, product, farthest)
                               : from_product(points, own, points, other, product);
    if (!(squared < farthest))
        return point;
    if (points->t && (points->full || points->matrix.data)) {
        double low;
        if (point == NULL)
            point = view_point(points, own, &task->space, worker->wide, worker->shifted);
        low = from_difference(&task->constants, &task->space, point, points->length[own], points, other, worker->wide,
                              worker->room).low;
        squared = low * low > squared ? low * low : squared;
    }
    if (squared < limit)
        emit(task, worker, own, task->candidates[other], squared);
    if (squared < reverse)
        emit(task, worker, other, task->candidates[own], squared);
    return point;
}

/* Look at the flagged columns of a row's products with a leaf. */
WIDE static void look_at_flags(PairSearch *task, Worker *worker, const Sides *sides, int64_t own, const float *products,
                               const uint8_t *flags)
{
    const float *point = NULL;
    for (int64_t group = 0; group < PANEL; group += 8) {
        uint64_t left;
        memcpy(&left, flags + group, sizeof left);
        for (; left; left &= left - 1) {
            int64_t column = group + first_flag(left);
            point = look(task, worker, sides, own, column, products[column], point);
        }
    }
}

/* Look at pairs that heads do not rule out, ordered by their points. */
WIDE static void look_at_pairs(PairSearch *task, Worker *worker, const Sides *sides, const Near *pairs, int64_t n)
{
    const float *point = NULL;
    for (int64_t i = 0; i < n; i++) {
        point = i > 0 && pairs[i].point == pairs[i - 1].point ? point : NULL;
        point = look(task, worker, sides, pairs[i].point, pairs[i].column, pairs[i].product, point);
    }
}

/* The points of a leaf, packed. */
typedef struct {
    int64_t first, n;
    Leaf leaf;
    int32_t sizes[PANEL];
    uint8_t *panel;
} CodedLeaf;

/* Compare two leaves by codes. */
static void compare_by_codes(PairSearch *task, Worker *worker, const CodedLeaf *own, const Sides *sides, int64_t start,
                             int64_t n, const Leaf *far, int32_t *products)
{
    const Points *points = &task->points;
    int32_t limits[PANEL], row_limits[PANEL], sizes[PANEL];
    uint64_t near[PANEL];
    Near pairs[PAIRS_TOGETHER + PANEL];
    int64_t n_pairs = 0;
    double squares = (double)own->leaf.longest * own->leaf.longest + (double)far->longest * far->longest;
    float added = (float)(points->slack * squares + FLOOR), step = (float)points->step;
    multiply_codes(points->codes + start * points->n_codes, (n + TILE - 1) / TILE, points->n_codes, own->panel, products);
    limit_codes(task->limits + own->first, points->errors + own->first, own->n, far->error, added, step, limits);
    limit_codes(task->limits + start, points->errors + start, n, own->leaf.error, added, step, row_limits);
    for (int64_t i = sides->is_wanted ? own->n : 0; i < PANEL; i++)
        limits[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        sizes[i] = points->sizes[2 * (start + i) + 1];
        row_limits[i] = sides->wants ? row_limits[i] : -1;
    }
    compare_codes(products, n, own->sizes, limits, sizes, row_limits, near);
    for (int64_t i = 0; i < n; i++) {
        for (; near[i]; near[i] &= near[i] - 1)
            pairs[n_pairs++] = (Near){(int32_t)(start + i), __builtin_ctzll(near[i]), 0.0f};
        if (n_pairs > 0 && (n_pairs > PAIRS_TOGETHER || i == n - 1)) {
            n_pairs = filter_heads(points, task->limits, own->first, pairs, n_pairs);
            look_at_pairs(task, worker, sides, pairs, n_pairs);
            n_pairs = 0;
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
    int64_t n_codes = points->n_codes;
    CodedLeaf coded = {.first = first, .n = n, .leaf = own, .panel = (uint8_t *)(products + (PANEL + TILE) * PANEL)};
    float halves[PANEL], limits[PANEL], none[PANEL];
    uint8_t flags[PANEL];
    worker.shifted = panel - 2 * d;
    worker.room = panel - d;
    for (int64_t i = 0; i < PANEL; i++) {
        none[i] = -INFINITY;
        halves[i] = i < n ? points->half[first + i] : INFINITY;
        limits[i] = i < n && task->limits[first + i] > 0.0f ? 0.5f * task->limits[first + i] : -INFINITY;
        coded.sizes[i] = n_codes && i < n ? points->sizes[2 * (first + i)] : 1 << 30;
    }
    if (n_codes)
        pack_codes(points->codes + first * n_codes, n, n_codes, coded.panel);
    else
        pack(points->head + first * k, n, k, panel);
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
        Sides sides = {first, wants, is_wanted};
        if (n_codes) {
            compare_by_codes(task, &worker, &coded, &sides, start, stop - start, &far, (int32_t *)products);
            continue;
        }
        multiply_tiles(points->head + start * k, (stop - start + TILE - 1) / TILE, k, panel, products, PANEL, NULL);
        for (int64_t i = start; i < stop; i++) {
            const float *row = products + (i - start) * PANEL;
            float limit = wants && task->limits[i] > 0.0f ? 0.5f * task->limits[i] : -INFINITY;
            compare(row, halves, is_wanted ? limits : none, points->half[i], limit, flags);
            look_at_flags(task, &worker, &sides, i, row, flags);
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
                         (int64_t)sizeof(float) * (2 * d + PANEL * k + (PANEL + TILE) * PANEL) +
                         PANEL * task->points.n_codes};
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
