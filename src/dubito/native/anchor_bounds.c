/* First bounds: the nearest of a few references (anchors) for every candidate, with one product over the pool. */

#include "extremes.h"
#include "refresh.h"

#include <stddef.h>

#define AT_ONCE (MAX_TILES * TILE)

static int64_t scratch_bytes(const AnchorBounds *task)
{
    return (int64_t)sizeof(double) * 2 * task->space.d + (int64_t)sizeof(float) * AT_ONCE * (task->space.d + PANEL);
}

static void write_nearest(const AnchorBounds *task, int64_t row, float *products, double own)
{
    float least;
    for (int column = 0; column < PANEL; column++)
        products[column] *= -2.0f;
    least = least_sum(products, task->sizes, PANEL);
    for (int column = 0; column < PANEL; column++)
        products[column] += task->sizes[column];
    own += least;
    task->bounds[row] = (own > 0.0 ? own : 0.0) / task->unit;
    task->is_high[row] = task->bounds[row] * (task->weights ? task->weights[task->rows[row]] : 1.0) > task->level;
    task->nearest[row] = (uint16_t)index_of(products, least, PANEL);
}

static void compare(const AnchorBounds *task, int64_t first, int64_t n, void *scratch)
{
    int64_t d = task->space.d, n_tiles = (n + TILE - 1) / TILE;
    float *points = (float *)((double *)scratch + 2 * d), *products = points + AT_ONCE * d;
    for (int64_t i = n * d; i < n_tiles * TILE * d; i++)
        points[i] = 0.0f;
    for (int64_t row = 0; row < n; row++)
        read_shifted(&task->pool, task->rows[first + row], &task->space, scratch, points + row * d);
    multiply_tiles(points, n_tiles, d, task->panel, products, PANEL, NULL);
    for (int64_t row = 0; row < n; row++) {
        double own = task->grow * squared_length(points + row * d, d) + task->floor;
        write_nearest(task, first + row, products + row * PANEL, own);
    }
}

static void compare_piece(void *data, int64_t number, void *scratch)
{
    const AnchorBounds *task = data;
    int64_t stop = (number + 1) * task->block < task->n ? (number + 1) * task->block : task->n;
    for (int64_t first = number * task->block; first < stop; first += AT_ONCE)
        compare(task, first, stop - first < AT_ONCE ? stop - first : AT_ONCE, scratch);
}

int anchor_bounds(AnchorBounds *task, int n_threads)
{
    task->loop = (ParallelFor){.work = compare_piece,
                            .task = task,
                            .n_pieces = (task->n + task->block - 1) / task->block,
                            .scratch_bytes = scratch_bytes(task)};
    return parallel_for(&task->loop, n_threads);
}
