/* A front's distances, in float64: by products of points that are moved to their own middle. */

#include "pairwise_sq_distances.h"
#include "products.h"

#include <stdlib.h>

#define TOGETHER 8

static int64_t ceiling(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static int64_t least(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* Read the points of a panel, and pack them by columns. Behind the last of all there is room for a tile. */
static void read_piece(void *given, int64_t piece, void *room)
{
    const Among *task = given;
    int64_t d = task->space.d, first = piece * WIDE_PANEL, stop = first + WIDE_PANEL;
    double *points = task->points + first * d, *panel = task->panels + first * d;
    for (int64_t row = first; row < least(stop, task->n); row++)
        task->sizes[row] = read_centred(&task->pool, task->rows[row], &task->space, task->middle, room,
                                        task->points + row * d);
    if (stop >= task->n)
        for (int64_t i = task->n * d; i < (stop + TILE) * d; i++)
            task->points[i] = 0.0;
    /* Some features of a point at a time: what a processor reads at once is used at once. */
    for (int64_t start = 0; start < d; start += TOGETHER)
        for (int64_t column = 0; column < WIDE_PANEL; column++)
            for (int64_t i = start; i < least(start + TOGETHER, d); i++)
                panel[i * WIDE_PANEL + column] = points[column * d + i];
}

/* Distances of a row to those of a panel that come after it, written both ways: a distance is the same either way, and
   each is written by one thread. */
static void keep_distances(const Among *task, int64_t row, int64_t start, const double *products)
{
    int64_t stop = least(start + WIDE_PANEL, task->n);
    for (int64_t other = start > row ? start : row; other < stop; other++) {
        double squared = -2.0 * products[other - start] + task->sizes[other] + task->sizes[row];
        task->squared[row * task->n + other] = squared;
        task->squared[other * task->n + row] = squared;
    }
}

static void measure_piece(void *given, int64_t piece, void *room)
{
    const Among *task = given;
    int64_t first = piece * task->tiles * TILE, n_rows = least(task->tiles * TILE, task->n - first), d = task->space.d;
    double *products = room;
    for (int64_t start = first / WIDE_PANEL * WIDE_PANEL; start < task->n; start += WIDE_PANEL) {
        multiply_tiles_wide(task->points + first * d, ceiling(n_rows, TILE), d, task->panels + start * d, products,
                            WIDE_PANEL);
        for (int64_t row = 0; row < n_rows; row++)
            keep_distances(task, first + row, start, products + row * WIDE_PANEL);
    }
}

int distances_among(Among *task, int n_threads)
{
    int64_t n_panels = ceiling(task->n, WIDE_PANEL), n_tiles = ceiling(task->n, TILE), d = task->space.d;
    int is_done;
    task->points = malloc(sizeof(double) * (size_t)((2 * n_panels * WIDE_PANEL + TILE) * d + 1));
    if (task->points == NULL)
        return 0;
    task->panels = task->points + (n_panels * WIDE_PANEL + TILE) * d;
    task->shared = (Shared){
        .work = read_piece, .task = task, .n_pieces = n_panels, .room_bytes = d * (int64_t)sizeof(double)};
    is_done = share(&task->shared, n_threads);
    /* The first rows have the most others behind them: pieces are small, so that none waits for those. */
    task->tiles = tiles_for(n_tiles / 2, d, n_threads);
    task->shared = (Shared){.work = measure_piece,
                            .task = task,
                            .n_pieces = ceiling(n_tiles, task->tiles),
                            .room_bytes = task->tiles * TILE * WIDE_PANEL * (int64_t)sizeof(double)};
    is_done = is_done && share(&task->shared, n_threads);
    free(task->points);
    return is_done;
}
