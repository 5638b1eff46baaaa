/* Exact distances to the nearest labeled point: codes rule out nearly all of the others, float32 nearly all of the rest.
   The bounds are proved in docs/explanation/engine.md. */

#include "coverage.h"
#include "steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All results here are bounds. Exact distances are computed in points.c. */
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast", "no-math-errno")
#endif

#define LABEL_PANELS 16 /* panels of labeled points that are multiplied before their pairs are checked */
#define FAR_PANELS 4    /* the same for panels of other cells, which smaller limits may rule out */

typedef struct {
    int64_t row, other;
    double low;
} UndecidedPair;

typedef struct {
    UndecidedPair *items;
    int64_t n, capacity;
} UndecidedPairs;

/* Returns 0 if memory ran out. */
static int add_undecided(UndecidedPairs *found, UndecidedPair one)
{
    if (found->n == found->capacity) {
        int64_t capacity = found->capacity ? 2 * found->capacity : 256;
        UndecidedPair *items = realloc(found->items, (size_t)capacity * sizeof(UndecidedPair));
        if (items == NULL)
            return 0;
        found->items = items;
        found->capacity = capacity;
    }
    found->items[found->n++] = one;
    return 1;
}

WIDE static int64_t index_of_nearest(const int32_t *restrict products, const int32_t *restrict sizes, int64_t n)
{
    int32_t least = INT32_MAX;
    int64_t found = 0;
    for (int64_t start = 0; start < n; start += PANEL) {
        int32_t top = INT32_MAX;
        for (int64_t i = start; i < start + PANEL; i++) {
            int32_t value = sizes[i] - 2 * products[i];
            top = value < top ? value : top;
        }
        if (top < least) {
            least = top;
            for (int64_t i = start; i < start + PANEL; i++)
                if (sizes[i] - 2 * products[i] == top)
                    found = i;
        }
    }
    return found;
}

/* A leaf of labeled points, and a lower bound on its distances. */
typedef struct {
    double low;
    int64_t leaf;
} LeafDistance;

static int by_low(const void *one, const void *other)
{
    const LeafDistance *left = one, *right = other;
    if (left->low != right->low)
        return left->low < right->low ? -1 : 1;
    return (left->leaf > right->leaf) - (left->leaf < right->leaf);
}

/* The rows of a piece and their state. ``products`` are those with the labeled points in ``columns``; the last of these points
   may not be multiplied yet. */
typedef struct {
    Nearest *task;
    int64_t first, n, n_columns, columns[LABEL_PANELS * PANEL];
    float longest; /* length of the longest point in ``columns`` */
    double *limits, *one, *other, *wide;
    int32_t *products, *sizes;
    float *errors, *panel, *shifted, *buffer;
    UndecidedPairs found;
} Rows;

/* The limit of a row, as limits on the squared distances of its codes to the codes of some columns. */
WIDE static void limit_columns(const float *restrict errors, int64_t n, float distance, float step, int32_t *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        float max = (distance + errors[i]) / step;
        max = max * max * 1.00001f + 2.0f;
        out[i] = max < 1e9f ? (int32_t)max : 1000000000; /* below NO_CODE */
    }
}

/* The largest distance of a row's codes, without the errors of the columns, at which a column may be within its limit. */
static float max_code_distance(const Rows *rows, int64_t i)
{
    const Points *points = &rows->task->points;
    double length = points->length[rows->first + i], squares = length * length + (double)rows->longest * rows->longest;
    double limit = rows->limits[i] < 1e15 ? rows->limits[i] : 1e15;
    return (float)(sqrt(limit * limit + points->slack * squares + FLOOR) + points->codes.errors[rows->first + i]);
}

static void multiply_panel(Rows *rows)
{
    const Codes *codes = &rows->task->points.codes;
    int64_t first = (rows->n_columns - 1) / PANEL * PANEL;
    for (int64_t i = rows->n_columns; i < first + PANEL; i++) {
        pack_codes(NULL, codes->n_codes, i - first, rows->panel);
        rows->sizes[i] = NO_CODE;
        rows->errors[i] = 0.0f;
    }
    multiply_codes(codes, rows->first, (rows->n + TILE - 1) / TILE, rows->panel, rows->products + first,
                   LABEL_PANELS * PANEL);
}

/* Bound the distance of row i to a labeled point, which may lower the limit of the row. Returns 0 if memory ran out. */
WIDE static int check_pair(Rows *rows, int64_t i, int64_t other, const float **point)
{
    const Nearest *task = rows->task;
    const Points *points = &task->points, *others = &task->others;
    int64_t own = rows->first + i;
    double *limit = rows->limits + i;
    Interval distance;
    if (points->fine.n_codes) {
        double max =
            max_fine_distance(&task->constants, &points->fine, own, &others->fine, other, points->length[own], *limit);
        if (fine_squared(&points->fine, own, &others->fine, other) > max * max)
            return 1;
    }
    if (*point == NULL)
        *point = view_point(points, own, &task->space, rows->wide, rows->shifted);
    distance = bounds_from_difference(&task->constants, &task->space, *point, points->length[own], others, other, rows->wide,
                            rows->buffer);
    *limit = distance.high < *limit ? distance.high : *limit;
    return distance.low > *limit || add_undecided(&rows->found, (UndecidedPair){own, other, distance.low});
}

/* Check the pairs of rows and columns that may be nearest, then clear the columns. Returns 0 if memory ran out. */
static int compare_columns(Rows *rows)
{
    const Codes *codes = &rows->task->points.codes;
    int64_t n_columns = (rows->n_columns + PANEL - 1) / PANEL * PANEL;
    int32_t limits[PANEL];
    if (rows->n_columns == 0)
        return 1;
    if (rows->n_columns < n_columns)
        multiply_panel(rows);
    for (int64_t i = 0; i < rows->n; i++) {
        const int32_t *products = rows->products + i * LABEL_PANELS * PANEL, size = codes->sizes[2 * (rows->first + i) + 1];
        int64_t best = index_of_nearest(products, rows->sizes, n_columns);
        int32_t none = -1;
        const float *point = NULL;
        if (!check_pair(rows, i, rows->columns[best], &point))
            return 0;
        for (int64_t at = 0; at < n_columns; at += PANEL) {
            uint64_t near;
            limit_columns(rows->errors + at, PANEL, max_code_distance(rows, i), (float)codes->step, limits);
            compare_codes(products + at, 1, rows->sizes + at, limits, &size, &none, &near);
            for (; near; near &= near - 1) {
                int64_t column = at + first_bit(near);
                if (column != best && !check_pair(rows, i, rows->columns[column], &point))
                    return 0;
            }
        }
    }
    rows->n_columns = 0;
    rows->longest = 0.0f;
    return 1;
}

/* Add a leaf of labeled points to the columns, which are compared whenever they are full. Returns 0 if memory ran out. */
static int add_leaf(Rows *rows, int64_t leaf, int64_t most_columns)
{
    const Points *others = &rows->task->others;
    const Codes *codes = &others->codes;
    for (int64_t point = rows->task->other_starts[leaf]; point < rows->task->other_starts[leaf + 1]; point++) {
        int64_t column = rows->n_columns % PANEL;
        pack_codes(codes->codes + point * codes->n_codes, codes->n_codes, column, rows->panel);
        rows->longest = others->length[point] > rows->longest ? others->length[point] : rows->longest;
        rows->errors[rows->n_columns] = codes->errors[point];
        rows->sizes[rows->n_columns] = codes->sizes[2 * point];
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
    double max = 0.0;
    for (int64_t i = 0; i < rows->n; i++)
        max = rows->limits[i] > max ? rows->limits[i] : max;
    return max;
}

/* Lower bounds on the distances of the leaves from the rows. */
static void bound_leaf_distances(Rows *rows, int64_t leaf, float *products, float *edges, LeafDistance *leaf_distances)
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
        for (int64_t other_cell = 0; n_cells > 1 && other_cell < n_cells; other_cell++)
            edges[other_cell] = row[other_cell] - row[cell] > edges[other_cell] ? row[other_cell] - row[cell] : edges[other_cell];
    }
    for (int64_t other = 0; other < task->n_other_leaves; other++) {
        int64_t other_cell = task->other_cells[other], pair = cell * n_cells + other_cell;
        double low = 0.0;
        if (other_cell != cell) {
            low = -(double)edges[other_cell] - task->edges[other * n_cells + cell] -
                  task->slack[pair] * (longest + task->longest[other]);
            low *= task->gaps[pair];
        }
        leaf_distances[other] = (LeafDistance){low > 0.0 ? low : 0.0, other};
    }
}

static void nearest_piece(void *data, int64_t piece, void *scratch)
{
    Nearest *task = data;
    const Points *points = &task->points, *others = &task->others;
    int64_t d = task->space.d, leaf = task->first + piece, stride = LABEL_PANELS * PANEL, n_separate = 0;
    Rows rows = {.task = task, .first = task->starts[leaf], .n = task->starts[leaf + 1] - task->starts[leaf]};
    int is_done = 1;
    rows.one = scratch;
    rows.other = rows.one + d;
    rows.wide = rows.other + d;
    rows.limits = rows.wide + 2 * d;
    LeafDistance *leaf_distances = (LeafDistance *)(rows.limits + MOST_ROWS);
    rows.products = (int32_t *)(leaf_distances + task->n_other_leaves);
    rows.sizes = rows.products + MOST_ROWS * stride;
    rows.errors = (float *)(rows.sizes + stride);
    rows.panel = rows.errors + stride;
    rows.shifted = rows.panel + PANEL * points->codes.n_codes;
    rows.buffer = rows.shifted + d;
    float *edges = rows.buffer + d, *with_centers = edges + task->n_cells;
    for (int64_t i = 0; i < rows.n; i++)
        rows.limits[i] = sqrt(task->squared[rows.first + i] * task->constants.unit) * (1.0 + 1e-12);
    bound_leaf_distances(&rows, leaf, with_centers, edges, leaf_distances);
    /* First the leaves that may be at distance 0, then the others, nearest first. */
    for (int64_t i = 0; is_done && i < task->n_other_leaves; i++) {
        if (leaf_distances[i].low > 0.0) {
            leaf_distances[n_separate++] = leaf_distances[i];
            continue;
        }
        is_done = add_leaf(&rows, leaf_distances[i].leaf, LABEL_PANELS * PANEL);
    }
    is_done = is_done && compare_columns(&rows);
    qsort(leaf_distances, (size_t)n_separate, sizeof(LeafDistance), by_low);
    for (int64_t i = 0; is_done && i < n_separate && leaf_distances[i].low <= largest_limit(&rows); i++)
        is_done = add_leaf(&rows, leaf_distances[i].leaf, FAR_PANELS * PANEL);
    is_done = is_done && compare_columns(&rows);
    for (int64_t i = 0, last = -1; is_done && i < rows.found.n; i++) {
        UndecidedPair pair = rows.found.items[i];
        double exact, *limit = rows.limits + (pair.row - rows.first);
        if (pair.low > *limit)
            continue;
        if (pair.row != last)
            read_exactly(&points->matrix, points->rows[pair.row], &task->space, rows.wide, rows.one);
        last = pair.row;
        read_exactly(&others->matrix, others->rows[pair.other], &task->space, rows.wide, rows.other);
        exact = exact_sq_distance(rows.one, rows.other, rows.wide, d);
        if (exact < task->squared[pair.row]) {
            double distance = sqrt(exact * task->constants.unit) * (1.0 + 1e-12);
            task->squared[pair.row] = exact;
            *limit = distance < *limit ? distance : *limit;
        }
    }
    free(rows.found.items);
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
        .scratch_bytes = (int64_t)sizeof(double) * (4 * d + MOST_ROWS) + (int64_t)sizeof(LeafDistance) * task->n_other_leaves +
                         (int64_t)sizeof(float) * ((MOST_ROWS + 2) * stride + PANEL * task->points.codes.n_codes + 2 * d +
                                                   task->n_cells + n_panels * MOST_ROWS * PANEL)};
    return parallel_for(&task->loop, n_threads);
}
