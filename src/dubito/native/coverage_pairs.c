/* Pairs of near points: codes of a few coordinates rule out nearly all of them, codes of all features and differences in
   float32 nearly all of the rest. The bounds are proved in docs/explanation/engine.md. */

#include "coverage.h"
#include "steps.h"

#include <float.h>
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
#define DENSE 8            /* one in so many pairs of two leaves are left */
#define SMALL_ERROR 0.005  /* of products, over the largest limit */

/* Limits (n,) on squared distances of points as limits on those of codes, -1 where there is none. ``error`` is that of the
   other points, ``added`` the error of squared distances of heads. */
WIDE static void limit_codes(const float *restrict limits, const float *restrict errors, int64_t n, float error,
                             float added, float step, int32_t *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        float reach = (sqrtf((limits[i] > 0.0f ? limits[i] : 0.0f) + added) + errors[i] + error) / step;
        float most = reach * reach * 1.00001f + 2.0f;
        out[i] = limits[i] > 0.0f ? (int32_t)(most < 1e9f ? most : 1e9f) : -1; /* below NO_CODE */
    }
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

/* A point of the far leaf and one of the own, and a lower bound on their squared distance. */
typedef struct {
    int32_t far, own;
    double squared;
} Near;

/* A thread's reserved entries, and memory for points. */
typedef struct {
    int64_t next, end;
    double *wide;
    float *shifted, *room;
    Near *pairs; /* (PANEL · PANEL,) */
    float *panel, *products; /* the own leaf, once it is packed, and its products with the far one */
    int is_packed;
    double inverse_reach; /* 1/R² of shifted points, and finite, so that kernels are bounded if R² is subnormal */
} Worker;

static void add_double(double *to, double value)
{
    union {
        int64_t bits;
        double number;
    } before, sum;
    before.bits = atomic_read((int64_t *)to);
    do
        sum.number = before.number + value;
    while (!atomic_replace((int64_t *)to, &before.bits, sum.bits));
}

static void emit(PairSearch *task, Worker *worker, int64_t point, int32_t candidate, double squared)
{
    int64_t row = task->numbers[point];
    double near = 1.0 - squared * worker->inverse_reach, kernel;
    if (!(near > 0.0))
        return;
    kernel = near * near * NEAR + 1e-30;
    kernel = kernel < 1.0 ? kernel : 1.0;
    if (task->sums) {
        double term = kernel - task->covered[row].cover;
        if (term > 0.0)
            add_double(task->sums + candidate, term * task->covered[row].weight + task->constants.smallest);
        return;
    }
    if (worker->next == worker->end) {
        worker->next = atomic_add(&task->n_pairs, CHUNK);
        worker->end = worker->next + CHUNK;
        if (worker->end > task->capacity) {
            atomic_add(&task->is_full, 1);
            cancel(&task->loop, 0);
        }
    }
    if (worker->end <= task->capacity)
        task->pairs[worker->next] = (Pair){(int32_t)row, candidate, (float)kernel};
    worker->next++;
}

/* What is wanted of two leaves: pairs of rows of the far one with candidates of the own one, and the reverse. */
typedef struct {
    int wants, is_wanted;
} Sides;

/* The roots of limits (n,), rounded up; 0 where there is none. */
WIDE static void take_roots(const float *restrict limits, int64_t n, float *restrict roots)
{
    for (int64_t i = 0; i < n; i++)
        roots[i] = sqrtf(limits[i] > 0.0f ? limits[i] : 0.0f) * (1.0f + 1e-6f);
}

/* Keep the pairs of leaves that are within a limit by codes of all features. Without branches, which could not be
   predicted. ``roots`` of limits are those of the far leaf, which begins at ``start``, and of the own one. Distances are
   bounded if nothing else will (``is_last``). */
static int64_t filter_by_codes(const PairSearch *task, const float *far_roots, int64_t start, const float *own_roots,
                               int64_t first, Near *pairs, int64_t n, int is_last)
{
    const Points *points = &task->points;
    const Codes *fine = &points->fine;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t far = pairs[i].far, own = pairs[i].own, squared = fine_squared(fine, far, fine, own);
        float root = far_roots[far - start] > own_roots[own - first] ? far_roots[far - start] : own_roots[own - first];
        double most = fine_reach(&task->constants, fine, far, fine, own, points->length[far], root);
        pairs[kept] = pairs[i];
        if (is_last) {
            double apart = fine->step * sqrt(squared) - ((double)fine->errors[far] + fine->errors[own]);
            apart = around(&task->constants, apart > 0.0 ? apart : 0.0, points->length[far]).low;
            pairs[kept].squared = apart * apart;
        }
        kept += squared <= most * most;
    }
    return kept;
}

/* How much smaller a squared distance of shifted points can be than the one in float32: factor · squared - less. The error of
   a length a is a·e + f, and 2·a·f <= f·(a²/t + t) for any t: no root is needed. */
typedef struct {
    double factor, less;
} Shrinking;

/* Of points that are no longer than ``length``. */
static Shrinking shrinking(const CoverageConstants *constants, double length)
{
    double error = constants->shift * length + constants->floor_length, middle = sqrt(constants->scaled_reach) + 4.0 * error;
    return (Shrinking){1.0 - 2.0 * (constants->shift + constants->spread) - 1e-12 - error / middle, error * middle};
}

/* Keep the pairs of leaves within a limit of either by differences in float32, which bound squared distances. Limits are
   those of the far leaf, which begins at ``start``, and of the own one. */
WIDE static int64_t filter_by_differences(const PairSearch *task, Worker *worker, Shrinking less, const float *far_limits,
                                          int64_t start, const float *own_limits, int64_t first, Near *pairs, int64_t n)
{
    const Points *points = &task->points;
    const float *point = NULL;
    int64_t kept = 0, d = task->space.d;
    for (int64_t i = 0, last = -1; i < n; i++) {
        int32_t far = pairs[i].far, own = pairs[i].own;
        float limit = far_limits[far - start] > own_limits[own - first] ? far_limits[far - start] : own_limits[own - first];
        if (far != last)
            point = view_point(points, far, &task->space, worker->wide, worker->shifted);
        last = far;
        const float *other = view_point(points, own, &task->space, worker->wide, worker->room);
        double squared = less.factor * squared_distance(point, other, d) - less.less;
        squared = squared > 0.0 ? squared : 0.0;
        pairs[kept] = (Near){far, own, squared};
        kept += squared < limit;
    }
    return kept;
}

/* Lower bounds on squared distances from products (PANEL,) with points of these squared lengths, and whether they are
   within a limit. */
WIDE static void bound_products(const float *restrict products, float square, const float *restrict squares, float factor,
                                float slack, float less, float limit, const float *restrict limits, float *restrict low,
                                uint8_t *restrict is_near)
{
    for (int64_t i = 0; i < PANEL; i++) {
        float squared = factor * (square + squares[i] - 2.0f * products[i]) - slack * (square + squares[i]) - less;
        low[i] = squared > 0.0f ? squared : 0.0f;
        is_near[i] = low[i] < (limit > limits[i] ? limit : limits[i]);
    }
}

/* The points of a leaf, packed. */
typedef struct {
    int64_t first, n;
    Leaf leaf;
    int32_t sizes[PANEL];
    float *panel;
} PackedLeaf;

/* The same as filter_by_differences for the pairs in ``near``, by products of all points of two leaves, whose heads hold all
   features. Their error relative to squared lengths is at most the slack; as much again is for rounding here. */
static int64_t filter_by_products(const PairSearch *task, Worker *worker, Shrinking less, const PackedLeaf *own,
                                  const float *far_limits, int64_t start, int64_t n, const float *own_limits,
                                  const uint64_t *near)
{
    const Points *points = &task->points;
    int64_t k = points->k, n_pairs = 0;
    float squares[PANEL] = {0.0f}, low[PANEL];
    uint8_t is_near[PANEL];
    for (int64_t column = 0; column < PANEL && !worker->is_packed; column++)
        for (int64_t i = 0; i < k; i++)
            worker->panel[i * PANEL + column] = column < own->n ? points->head[(own->first + column) * k + i] : 0.0f;
    worker->is_packed = 1;
    multiply_tiles(points->head + start * k, (n + TILE - 1) / TILE, k, worker->panel, worker->products, PANEL, NULL);
    for (int64_t i = 0; i < own->n; i++)
        squares[i] = points->length[own->first + i] * points->length[own->first + i];
    for (int64_t row = 0; row < n; row++) {
        float length = points->length[start + row], square = length * length;
        if (near[row] == 0)
            continue;
        bound_products(worker->products + row * PANEL, square, squares, (float)less.factor, (float)(2.0 * points->slack),
                       (float)(less.less + FLOOR), far_limits[row], own_limits, low, is_near);
        for (uint64_t left = near[row]; left; left &= left - 1) {
            int column = first_bit(left);
            worker->pairs[n_pairs] = (Near){(int32_t)(start + row), (int32_t)(own->first + column), low[column]};
            n_pairs += is_near[column];
        }
    }
    return n_pairs;
}

/* Compare a leaf with another one. ``products`` has room for PANEL + TILE rows. */
static void compare_leaves(PairSearch *task, Worker *worker, const PackedLeaf *own, const Sides *sides, int64_t start,
                           int64_t n, const Leaf *far, int32_t *products)
{
    const Points *points = &task->points;
    const Codes *codes = &points->codes;
    int32_t limits[PANEL], row_limits[PANEL], row_sizes[PANEL];
    float far_limits[PANEL], own_limits[PANEL];
    uint64_t near[PANEL];
    int64_t n_pairs = 0;
    Near *pairs = worker->pairs;
    double squares = (double)own->leaf.longest * own->leaf.longest + (double)far->longest * far->longest;
    float added = (float)(points->slack * squares + FLOOR), step = (float)codes->step;
    multiply_codes(codes, start, (n + TILE - 1) / TILE, own->panel, products, PANEL);
    for (int64_t i = 0; i < PANEL; i++) {
        far_limits[i] = sides->wants && i < n ? task->limits[start + i] : -1.0f;
        own_limits[i] = sides->is_wanted && i < own->n ? task->limits[own->first + i] : -1.0f;
    }
    limit_codes(own_limits, codes->errors + own->first, own->n, far->error, added, step, limits);
    limit_codes(far_limits, codes->errors + start, n, own->leaf.error, added, step, row_limits);
    for (int64_t i = own->n; i < PANEL; i++)
        limits[i] = -1;
    for (int64_t i = 0; i < n; i++)
        row_sizes[i] = codes->sizes[2 * (start + i) + 1];
    compare_codes(products, n, own->sizes, limits, row_sizes, row_limits, near);
    for (int64_t i = 0; i < n; i++)
        n_pairs += count_bits(near[i]);
    Shrinking less = shrinking(&task->constants, far->longest);
    double most = far->farthest > own->leaf.farthest ? far->farthest : own->leaf.farthest;
    if (points->full == points->head && n_pairs * DENSE > n * own->n && added < SMALL_ERROR * most) {
        /* All products together cost less than so many differences. */
        n_pairs = filter_by_products(task, worker, less, own, far_limits, start, n, own_limits, near);
    } else {
        int has_features = points->full || points->matrix.data;
        n_pairs = 0;
        for (int64_t i = 0; i < n; i++)
            for (; near[i]; near[i] &= near[i] - 1)
                pairs[n_pairs++] = (Near){(int32_t)(start + i), (int32_t)(own->first + first_bit(near[i])), 0.0};
        if (points->fine.n_codes && n_pairs) {
            float far_roots[PANEL], own_roots[PANEL];
            take_roots(far_limits, PANEL, far_roots);
            take_roots(own_limits, PANEL, own_roots);
            n_pairs = filter_by_codes(task, far_roots, start, own_roots, own->first, pairs, n_pairs, !has_features);
        }
        if (has_features)
            n_pairs = filter_by_differences(task, worker, less, far_limits, start, own_limits, own->first, pairs, n_pairs);
    }
    for (const Near *pair = pairs; pair < pairs + n_pairs; pair++) {
        if (task->candidates[pair->own] >= 0 && pair->squared < far_limits[pair->far - start])
            emit(task, worker, pair->far, task->candidates[pair->own], pair->squared);
        if (task->candidates[pair->far] >= 0 && pair->squared < own_limits[pair->own - own->first])
            emit(task, worker, pair->own, task->candidates[pair->far], pair->squared);
    }
}

static void search_piece(void *data, int64_t piece, void *scratch)
{
    PairSearch *task = data;
    const Codes *codes = &task->points.codes;
    int64_t leaf = task->first + task->n_pieces - 1 - piece, d = task->space.d, cell = task->cells[leaf];
    int64_t first = task->starts[leaf], n = task->starts[leaf + 1] - first;
    Worker worker = {.pairs = scratch, .inverse_reach = fmin(1.0 / task->constants.scaled_reach, DBL_MAX)};
    worker.wide = (double *)(worker.pairs + PANEL * PANEL);
    worker.shifted = (float *)(worker.wide + 2 * d);
    worker.room = worker.shifted + d;
    PackedLeaf own = {.first = first, .n = n, .leaf = task->leaves[leaf], .panel = worker.room + d};
    int32_t *products = (int32_t *)(own.panel + PANEL * codes->n_codes);
    worker.products = (float *)(products + (PANEL + TILE) * PANEL);
    worker.panel = worker.products + (PANEL + TILE) * PANEL;
    for (int64_t i = 0; i < PANEL; i++) {
        own.sizes[i] = i < n ? codes->sizes[2 * (first + i)] : NO_CODE;
        pack_codes(i < n ? codes->codes + (first + i) * codes->n_codes : NULL, codes->n_codes, i, own.panel);
    }
    for (int64_t other = 0; other <= leaf && !atomic_read(&task->loop.is_canceled); other++) {
        int64_t start = task->starts[other], its = task->cells[other];
        const Leaf *far = task->leaves + other;
        int wants = far->farthest > 0.0f && own.leaf.has_candidates;
        int is_wanted = other < leaf && own.leaf.farthest > 0.0f && far->has_candidates;
        float farthest = wants ? far->farthest : -1.0f;
        farthest = is_wanted && own.leaf.farthest > farthest ? own.leaf.farthest : farthest;
        if (!(farthest > 0.0f))
            continue;
        if (its != cell) {
            double between = -(double)task->edges[leaf * task->n_cells + its] -
                             task->edges_by_cell[cell * task->n_leaves + other] -
                             task->slack[cell * task->n_cells + its] * ((double)own.leaf.longest + far->longest);
            double low = between * task->gaps[cell * task->n_cells + its];
            if (low > 0.0 && low * low >= farthest)
                continue;
        }
        Sides sides = {wants, is_wanted};
        compare_leaves(task, &worker, &own, &sides, start, task->starts[other + 1] - start, far, products);
    }
    for (; worker.next < worker.end && worker.end <= task->capacity; worker.next++)
        task->pairs[worker.next] = (Pair){0, -1, 0.0f};
}

int search_pairs(PairSearch *task, int n_threads)
{
    int64_t d = task->space.d;
    task->loop = (ParallelFor){
        .work = search_piece,
        .task = task,
        .n_pieces = task->n_pieces,
        .scratch_bytes = (int64_t)sizeof(Near) * PANEL * PANEL + (int64_t)sizeof(double) * 2 * d +
                         (int64_t)sizeof(float) * (2 * d + PANEL * task->points.codes.n_codes + 2 * (PANEL + TILE) * PANEL +
                                              PANEL * task->points.k)};
    return parallel_for(&task->loop, n_threads);
}

/* Sorting pairs by candidate */

#define GROUPED (1 << 18)

typedef struct {
    const Pair *pairs;
    int64_t n_pairs, n_candidates, *cursors;
    int is_alone; /* there is one piece */
    int32_t *rows;
    float *kernels;
    ParallelFor loop;
} Grouping;

static void group_piece(void *data, int64_t piece, void *scratch)
{
    Grouping *task = data;
    int64_t first = piece * GROUPED, stop = first + GROUPED < task->n_pairs ? first + GROUPED : task->n_pairs;
    (void)scratch;
    for (const Pair *pair = task->pairs + first; pair < task->pairs + stop; pair++) {
        if (pair->candidate < 0)
            continue;
        if (pair->candidate >= task->n_candidates) {
            cancel(&task->loop, 0);
            return;
        }
        int64_t *cursor = task->cursors + pair->candidate, at = task->is_alone ? (*cursor)++ : atomic_add(cursor, 1);
        if (task->rows != NULL) {
            task->rows[at] = pair->row;
            task->kernels[at] = pair->kernel;
        }
    }
}

int group_pairs(const Pair *pairs, int64_t n_pairs, int64_t n_candidates, int64_t *starts, int32_t *rows, float *kernels,
                int n_threads)
{
    int64_t before = 0, n_pieces = (n_pairs + GROUPED - 1) / GROUPED;
    Grouping task = {pairs, n_pairs, n_candidates, starts, n_pieces == 1, NULL, NULL,
                     {.work = group_piece, .task = &task, .n_pieces = n_pieces}};
    for (int64_t i = 0; i <= n_candidates; i++)
        starts[i] = 0;
    if (!parallel_for(&task.loop, n_threads))
        return 0;
    if (task.loop.is_canceled)
        return -1;
    for (int64_t i = 0; i <= n_candidates; i++) {
        int64_t own = starts[i];
        starts[i] = before;
        before += own;
    }
    task.rows = rows;
    task.kernels = kernels;
    task.loop = (ParallelFor){.work = group_piece, .task = &task, .n_pieces = n_pieces};
    if (!parallel_for(&task.loop, n_threads))
        return 0;
    for (int64_t i = n_candidates; i > 0; i--)
        starts[i] = starts[i - 1];
    starts[0] = 0;
    return 1;
}
