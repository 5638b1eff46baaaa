/* Pairs of near points: codes of a few coordinates rule out nearly all of them, codes of all features and differences in
   float32 nearly all of the rest. The bounds are proved in docs/explanation/engine.md. */

#include "coverage.h"
#include "steps.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All results here are bounds. Exact distances are computed in points.c. */
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast", "no-math-errno")
#endif

#define CHUNK 64           /* pairs that a thread reserves at a time */
#define DENSE 8            /* two leaves are dense if at least one in DENSE pairs is left */
#define SMALL_ERROR 0.005  /* error of products, relative to the largest limit */

/* Limits (n,) on squared distances of points, as limits on squared distances of codes; -1 where there is none. ``error`` is
   that of the other points' codes, ``added`` the error of squared distances of heads. */
WIDE static void limit_codes(const float *restrict limits, const float *restrict errors, int64_t n, float error,
                             float added, float step, int32_t *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        float distance = (sqrtf((limits[i] > 0.0f ? limits[i] : 0.0f) + added) + errors[i] + error) / step;
        float most = distance * distance * 1.00001f + 2.0f;
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

/* A point of the far leaf and a point of the own leaf, and a lower bound on their squared distance. */
typedef struct {
    int32_t far, own;
    double squared;
} Near;

/* A thread's reserved entries of ``pairs``, and its memory for points. */
typedef struct {
    int64_t next, end;
    double *wide;
    float *shifted, *buffer;
    Near *pairs; /* (PANEL · PANEL,) */
    float *panel, *products; /* the own leaf, once it is packed, and its products with the far leaf */
    int is_packed;
    double inverse_reach; /* 1/R² of shifted points; limited to finite values for a subnormal R² */
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

/* Which pairs of two leaves are needed: those of rows of the far leaf with candidates of the own leaf, and those of rows of the
   own leaf with candidates of the far leaf. */
typedef struct {
    int needs_far_rows, needs_own_rows;
} Sides;

/* The square roots of limits (n,), rounded up; 0 where there is no limit. */
WIDE static void take_roots(const float *restrict limits, int64_t n, float *restrict roots)
{
    for (int64_t i = 0; i < n; i++)
        roots[i] = sqrtf(limits[i] > 0.0f ? limits[i] : 0.0f) * (1.0f + 1e-6f);
}

/* Keep the pairs of two leaves that may be within a limit according to the codes of all features. The roots of limits belong to
   the far leaf, which begins at ``start``, and to the own leaf, which begins at ``first``. If this is the last filter
   (``is_last``), it also bounds the distances. It has no branch on a result, which the processor could not predict. */
static int64_t filter_by_codes(const PairSearch *task, const float *far_roots, int64_t start, const float *own_roots,
                               int64_t first, Near *pairs, int64_t n, int is_last)
{
    const Points *points = &task->points;
    const Codes *fine = &points->fine;
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t far = pairs[i].far, own = pairs[i].own, squared = fine_squared(fine, far, fine, own);
        float root = far_roots[far - start] > own_roots[own - first] ? far_roots[far - start] : own_roots[own - first];
        double most = max_fine_distance(&task->constants, fine, far, fine, own, points->length[far], root);
        pairs[kept] = pairs[i];
        if (is_last) {
            double distance = fine->step * sqrt(squared) - ((double)fine->errors[far] + fine->errors[own]);
            distance = distance_bounds(&task->constants, distance > 0.0 ? distance : 0.0, points->length[far]).low;
            pairs[kept].squared = distance * distance;
        }
        kept += squared <= most * most;
    }
    return kept;
}

/* A lower bound on the squared distance of shifted points, from the one computed in float32: factor · squared - offset. The
   error of a length a is a·e + f, and 2·a·f <= f·(a²/t + t) for any t: no root is needed. */
typedef struct {
    double factor, offset;
} SquaredBound;

/* The bound for points that are no longer than ``length``. */
static SquaredBound squared_bound(const CoverageConstants *constants, double length)
{
    double error = constants->shift * length + constants->floor_length, middle = sqrt(constants->scaled_reach) + 4.0 * error;
    return (SquaredBound){1.0 - 2.0 * (constants->shift + constants->spread) - 1e-12 - error / middle, error * middle};
}

/* Keep the pairs of two leaves that may be within either limit according to float32 differences, and bound their squared
   distances. The limits belong to the far leaf, which begins at ``start``, and to the own leaf, which begins at ``first``. */
WIDE static int64_t filter_by_differences(const PairSearch *task, Worker *worker, SquaredBound bound, const float *far_limits,
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
        const float *other = view_point(points, own, &task->space, worker->wide, worker->buffer);
        double squared = bound.factor * squared_distance(point, other, d) - bound.offset;
        squared = squared > 0.0 ? squared : 0.0;
        pairs[kept] = (Near){far, own, squared};
        kept += squared < limit;
    }
    return kept;
}

/* Lower bounds on the squared distances of a point to the points of a panel, from their products (PANEL,) and squared lengths,
   and whether each is within a limit. */
WIDE static void bound_products(const float *restrict products, float square, const float *restrict squares, float factor,
                                float slack, float offset, float limit, const float *restrict limits, float *restrict low,
                                uint8_t *restrict is_near)
{
    for (int64_t i = 0; i < PANEL; i++) {
        float squared = factor * (square + squares[i] - 2.0f * products[i]) - slack * (square + squares[i]) - offset;
        low[i] = squared > 0.0f ? squared : 0.0f;
        is_near[i] = low[i] < (limit > limits[i] ? limit : limits[i]);
    }
}

/* A leaf whose codes are packed for products. */
typedef struct {
    int64_t first, n;
    Leaf leaf;
    int32_t sizes[PANEL];
    float *panel;
} PackedLeaf;

/* Like filter_by_differences for the pairs in ``near``, but by products of all points of two leaves, whose heads must hold all
   features. The error of products, relative to squared lengths, is at most the slack; twice that also covers rounding here. */
static int64_t filter_by_products(const PairSearch *task, Worker *worker, SquaredBound bound, const PackedLeaf *own,
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
        bound_products(worker->products + row * PANEL, square, squares, (float)bound.factor, (float)(2.0 * points->slack),
                       (float)(bound.offset + FLOOR), far_limits[row], own_limits, low, is_near);
        for (uint64_t left = near[row]; left; left &= left - 1) {
            int column = first_bit(left);
            worker->pairs[n_pairs] = (Near){(int32_t)(start + row), (int32_t)(own->first + column), low[column]};
            n_pairs += is_near[column];
        }
    }
    return n_pairs;
}

/* Compare a leaf with another one. ``products`` is scratch memory for PANEL + TILE rows. */
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
        far_limits[i] = sides->needs_far_rows && i < n ? task->limits[start + i] : -1.0f;
        own_limits[i] = sides->needs_own_rows && i < own->n ? task->limits[own->first + i] : -1.0f;
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
    SquaredBound bound = squared_bound(&task->constants, far->longest);
    double most = far->farthest > own->leaf.farthest ? far->farthest : own->leaf.farthest;
    if (points->full == points->head && n_pairs * DENSE > n * own->n && added < SMALL_ERROR * most) {
        /* The products of all pairs cost less than this many differences. */
        n_pairs = filter_by_products(task, worker, bound, own, far_limits, start, n, own_limits, near);
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
            n_pairs = filter_by_differences(task, worker, bound, far_limits, start, own_limits, own->first, pairs, n_pairs);
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
    worker.buffer = worker.shifted + d;
    PackedLeaf own = {.first = first, .n = n, .leaf = task->leaves[leaf], .panel = worker.buffer + d};
    int32_t *products = (int32_t *)(own.panel + PANEL * codes->n_codes);
    worker.products = (float *)(products + (PANEL + TILE) * PANEL);
    worker.panel = worker.products + (PANEL + TILE) * PANEL;
    for (int64_t i = 0; i < PANEL; i++) {
        own.sizes[i] = i < n ? codes->sizes[2 * (first + i)] : NO_CODE;
        pack_codes(i < n ? codes->codes + (first + i) * codes->n_codes : NULL, codes->n_codes, i, own.panel);
    }
    for (int64_t other = 0; other <= leaf && !atomic_read(&task->loop.is_canceled); other++) {
        int64_t start = task->starts[other], other_cell = task->cells[other];
        const Leaf *far = task->leaves + other;
        int needs_far_rows = far->farthest > 0.0f && own.leaf.has_candidates;
        int needs_own_rows = other < leaf && own.leaf.farthest > 0.0f && far->has_candidates;
        float farthest = needs_far_rows ? far->farthest : -1.0f;
        farthest = needs_own_rows && own.leaf.farthest > farthest ? own.leaf.farthest : farthest;
        if (!(farthest > 0.0f))
            continue;
        if (other_cell != cell) {
            double between = -(double)task->edges[leaf * task->n_cells + other_cell] -
                             task->edges_by_cell[cell * task->n_leaves + other] -
                             task->slack[cell * task->n_cells + other_cell] * ((double)own.leaf.longest + far->longest);
            double low = between * task->gaps[cell * task->n_cells + other_cell];
            if (low > 0.0 && low * low >= farthest)
                continue;
        }
        Sides sides = {needs_far_rows, needs_own_rows};
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

#define GROUP_PAIRS (1 << 18)

typedef struct {
    const Pair *pairs;
    int64_t n_pairs, n_candidates, *cursors;
    int is_alone; /* whether there is only one piece */
    int32_t *rows;
    float *kernels;
    ParallelFor loop;
} Grouping;

static void group_piece(void *data, int64_t piece, void *scratch)
{
    Grouping *task = data;
    int64_t first = piece * GROUP_PAIRS, stop = first + GROUP_PAIRS < task->n_pairs ? first + GROUP_PAIRS : task->n_pairs;
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
    int64_t before = 0, n_pieces = (n_pairs + GROUP_PAIRS - 1) / GROUP_PAIRS;
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
