/* Pairwise squared distances of the points of a front, in float64, by products of centered points. */

#include "pairwise_sq_distances.h"
#include "products.h"

#include <stdlib.h>

#define CACHE_LINE 8

static int64_t ceiling(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static int64_t least(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* Read the points of a panel and pack them by columns. The points are padded with zeros by one tile. */
static void read_piece(void *data, int64_t piece, void *scratch)
{
    const PairwiseDistances *task = data;
    int64_t d = task->space.d, first = piece * WIDE_PANEL, stop = first + WIDE_PANEL;
    double *points = task->points + first * d, *panel = task->panels + first * d;
    for (int64_t row = first; row < least(stop, task->n); row++)
        task->sizes[row] = read_centered(&task->pool, task->rows[row], &task->space, task->middle, scratch,
                                        task->points + row * d);
    if (stop >= task->n)
        for (int64_t i = task->n * d; i < (stop + TILE) * d; i++)
            task->points[i] = 0.0;
    /* Copy a few features of a point at a time, to use whole cache lines. */
    for (int64_t start = 0; start < d; start += CACHE_LINE)
        for (int64_t column = 0; column < WIDE_PANEL; column++)
            for (int64_t i = start; i < least(start + CACHE_LINE, d); i++)
                panel[i * WIDE_PANEL + column] = points[column * d + i];
}

/* Write the distances of a row to the later rows of a panel, in both halves of the matrix: this makes the matrix symmetric,
   and each entry is written by one thread. */
static void write_distances(const PairwiseDistances *task, int64_t row, int64_t start, const double *products)
{
    int64_t stop = least(start + WIDE_PANEL, task->n);
    for (int64_t other = start > row ? start : row; other < stop; other++) {
        double squared = -2.0 * products[other - start] + task->sizes[other] + task->sizes[row];
        task->squared[row * task->n + other] = squared;
        task->squared[other * task->n + row] = squared;
    }
}

static void measure_piece(void *data, int64_t piece, void *scratch)
{
    const PairwiseDistances *task = data;
    int64_t first = piece * task->tiles * TILE, n_rows = least(task->tiles * TILE, task->n - first), d = task->space.d;
    double *products = scratch;
    for (int64_t start = first / WIDE_PANEL * WIDE_PANEL; start < task->n; start += WIDE_PANEL) {
        multiply_tiles_wide(task->points + first * d, ceiling(n_rows, TILE), d, task->panels + start * d, products,
                            WIDE_PANEL);
        for (int64_t row = 0; row < n_rows; row++)
            write_distances(task, first + row, start, products + row * WIDE_PANEL);
    }
}

int pairwise_sq_distances(PairwiseDistances *task, int n_threads)
{
    int64_t n_panels = ceiling(task->n, WIDE_PANEL), n_tiles = ceiling(task->n, TILE), d = task->space.d;
    int is_done;
    task->points = malloc(sizeof(double) * (size_t)((2 * n_panels * WIDE_PANEL + TILE) * d + 1));
    if (task->points == NULL)
        return 0;
    task->panels = task->points + (n_panels * WIDE_PANEL + TILE) * d;
    task->loop = (ParallelFor){
        .work = read_piece, .task = task, .n_pieces = n_panels, .scratch_bytes = d * (int64_t)sizeof(double)};
    is_done = parallel_for(&task->loop, n_threads);
    /* The first rows have the most later rows: small pieces balance the load. */
    task->tiles = tiles_for(n_tiles / 2, d, n_threads);
    task->loop = (ParallelFor){.work = measure_piece,
                            .task = task,
                            .n_pieces = ceiling(n_tiles, task->tiles),
                            .scratch_bytes = task->tiles * TILE * WIDE_PANEL * (int64_t)sizeof(double)};
    is_done = is_done && parallel_for(&task->loop, n_threads);
    free(task->points);
    return is_done;
}
