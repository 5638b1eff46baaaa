/* Rows compared with many others by products: what is nearest to each. */

#include "extremes.h"
#include "refresh.h"

#include <math.h>
#include <stddef.h>

static int64_t room_for(const Closest *task)
{
    return (int64_t)sizeof(float) * task->tiles * TILE * (task->k + PANEL + task->n_best);
}

/* Keep a candidate's place among the best, the first of equal ones ahead. */
static void put_in(float value, int32_t place, float *values, int32_t *places, int64_t n_best)
{
    int64_t rank = n_best - 1;
    if (!(value > values[rank]))
        return;
    for (; rank > 0 && value > values[rank - 1]; rank--) {
        values[rank] = values[rank - 1];
        places[rank] = places[rank - 1];
    }
    values[rank] = value;
    places[rank] = place;
}

/* A panel's products with a row, less what stands for each column's own length. */
static void look_at(const Closest *task, int64_t row, int64_t start, float *products, float *best)
{
    int64_t many = task->m - start < PANEL ? task->m - start : PANEL, stride = task->stride;
    float top;
    for (int64_t i = 0; i < many; i++)
        products[i] -= task->offsets[start + i];
    top = largest(products, many);
    task->largest[row] = top > task->largest[row] ? top : task->largest[row];
    if (top > best[task->n_best - 1])
        for (int64_t i = (stride - start % stride) % stride; i < many; i += stride)
            put_in(products[i], (int32_t)(start + i), best, task->places + row * task->n_best, task->n_best);
}

static void compare_piece(void *given, int64_t piece, void *room)
{
    const Closest *task = given;
    int64_t k = task->k, first = piece * task->tiles * TILE, left = task->n - first, rows = task->tiles * TILE;
    int64_t n = left < rows ? left : rows, n_tiles = (n + TILE - 1) / TILE;
    float *points = room, *products = points + rows * k, *best = products + rows * PANEL;
    for (int64_t i = 0; i < n_tiles * TILE * k; i++)
        points[i] = i < n * k ? task->rows[first * k + i] : 0.0f;
    for (int64_t row = 0; row < n; row++)
        task->largest[first + row] = -INFINITY;
    for (int64_t i = 0; i < n * task->n_best; i++) {
        best[i] = -INFINITY;
        task->places[first * task->n_best + i] = 0;
    }
    for (int64_t start = 0; start < task->m; start += PANEL) {
        multiply_tiles(points, n_tiles, k, task->panels + start * k, products, PANEL, NULL);
        for (int64_t row = 0; row < n; row++)
            look_at(task, first + row, start, products + row * PANEL, best + row * task->n_best);
    }
}

int find_closest(Closest *task, int n_threads)
{
    int64_t n_tiles = (task->n + TILE - 1) / TILE;
    task->tiles = tiles_for(n_tiles, task->k, n_threads);
    task->shared = (Shared){.work = compare_piece,
                            .task = task,
                            .n_pieces = (n_tiles + task->tiles - 1) / task->tiles,
                            .room_bytes = room_for(task)};
    return share(&task->shared, n_threads);
}
