/* The nearest columns of each row, by products. */

#include "extremes.h"
#include "refresh.h"

#include <math.h>
#include <stddef.h>

static int64_t scratch_bytes(const TopK *task)
{
    return (int64_t)sizeof(float) * task->tiles * TILE * (task->k + PANEL + task->n_best);
}

/* Insert a column into the best so far, which are in descending order; ties go to the first. */
static void insert(float value, int32_t column, float *values, int32_t *columns, int64_t n_best)
{
    int64_t rank = n_best - 1;
    if (!(value > values[rank]))
        return;
    for (; rank > 0 && value > values[rank - 1]; rank--) {
        values[rank] = values[rank - 1];
        columns[rank] = columns[rank - 1];
    }
    values[rank] = value;
    columns[rank] = column;
}

/* Update the best columns of a row by its products with a panel, minus each column's offset. */
static void update_best(const TopK *task, int64_t row, int64_t start, float *products, float *best)
{
    int64_t many = task->m - start < PANEL ? task->m - start : PANEL, stride = task->stride;
    float top;
    for (int64_t i = 0; i < many; i++)
        products[i] -= task->offsets[start + i];
    top = largest(products, many);
    task->largest[row] = top > task->largest[row] ? top : task->largest[row];
    if (top > best[task->n_best - 1])
        for (int64_t i = (stride - start % stride) % stride; i < many; i += stride)
            insert(products[i], (int32_t)(start + i), best, task->columns + row * task->n_best, task->n_best);
}

static void compare_piece(void *data, int64_t piece, void *scratch)
{
    const TopK *task = data;
    int64_t k = task->k, first = piece * task->tiles * TILE, left = task->n - first, rows = task->tiles * TILE;
    int64_t n = left < rows ? left : rows, n_tiles = (n + TILE - 1) / TILE;
    float *points = scratch, *products = points + rows * k, *best = products + rows * PANEL;
    for (int64_t i = 0; i < n_tiles * TILE * k; i++)
        points[i] = i < n * k ? task->rows[first * k + i] : 0.0f;
    for (int64_t row = 0; row < n; row++)
        task->largest[first + row] = -INFINITY;
    for (int64_t i = 0; i < n * task->n_best; i++) {
        best[i] = -INFINITY;
        task->columns[first * task->n_best + i] = 0;
    }
    for (int64_t start = 0; start < task->m; start += PANEL) {
        multiply_tiles(points, n_tiles, k, task->panels + start * k, products, PANEL, NULL);
        for (int64_t row = 0; row < n; row++)
            update_best(task, first + row, start, products + row * PANEL, best + row * task->n_best);
    }
}

int top_k(TopK *task, int n_threads)
{
    int64_t n_tiles = (task->n + TILE - 1) / TILE;
    task->tiles = tiles_for(n_tiles, task->k, n_threads);
    task->loop = (ParallelFor){.work = compare_piece,
                            .task = task,
                            .n_pieces = (n_tiles + task->tiles - 1) / task->tiles,
                            .scratch_bytes = scratch_bytes(task)};
    return parallel_for(&task->loop, n_threads);
}
