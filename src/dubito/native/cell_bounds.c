/* Bounds of candidates by all references of their cells. Each thread packs candidates into a panel; the references are read
   in place. */

#include "refresh.h"

#include <math.h>
#include <stddef.h>

#define CACHE_LINE 16 /* features of a point */

static int64_t scratch_bytes(const CellBounds *task)
{
    int64_t d = task->space.d;
    return (int64_t)sizeof(double) * (2 * d + PANEL) + (int64_t)sizeof(float) * PANEL * (2 * d + TILE + 1);
}

/* Points (n, d) by columns, padded with 0. */
static void pack(const float *points, int64_t n, int64_t d, float *panel)
{
    for (int64_t start = 0; start < d; start += CACHE_LINE)
        for (int64_t column = 0; column < PANEL; column++)
            for (int64_t i = start; i < d && i < start + CACHE_LINE; i++)
                panel[i * PANEL + column] = column < n ? points[column * d + i] : 0.0f;
}

static void lower_all(float *restrict least, const float *restrict products, float size)
{
    for (int column = 0; column < PANEL; column++) {
        float squared = -2.0f * products[column] + size;
        least[column] = squared < least[column] ? squared : least[column];
    }
}

static void bound_piece(void *data, int64_t piece, void *scratch)
{
    const CellBounds *task = data;
    int64_t d = task->space.d, first = task->piece_starts[piece], n = task->piece_starts[piece + 1] - first;
    int64_t cell = task->piece_cells[piece], stop = task->cell_starts[cell + 1];
    double *own = (double *)scratch + 2 * d;
    float *panel = (float *)(own + PANEL), *points = panel + PANEL * d, *products = points + PANEL * d;
    float *least = products + PANEL * TILE;
    for (int64_t row = 0; row < n; row++) {
        read_shifted(&task->references.pool, task->rows[first + row], &task->space, scratch, points + row * d);
        own[row] = task->grow * squared_length(points + row * d, d) + task->floor;
    }
    pack(points, n, d, panel);
    for (int column = 0; column < PANEL; column++)
        least[column] = INFINITY;
    for (int64_t member = task->cell_starts[cell]; member < stop; member += TILE) {
        int64_t many = stop - member < TILE ? stop - member : TILE;
        for (int64_t i = 0; i < TILE; i++) {
            int64_t row;
            /* Repeat the last one to fill the tile. */
            const Numbers *from = source(&task->references, task->members[member + (i < many ? i : many - 1)], &row);
            read_shifted(from, row, &task->space, scratch, points + i * d);
        }
        multiply_tiles(points, 1, d, panel, products, PANEL, NULL);
        for (int64_t i = 0; i < many; i++)
            lower_all(least, products + i * PANEL, task->sizes[task->members[member + i]]);
    }
    for (int64_t row = 0; row < n; row++) {
        double squared = own[row] + least[row], bound = (squared > 0.0 ? squared : 0.0) / task->unit;
        task->bounds[first + row] = bound < task->bounds[first + row] ? bound : task->bounds[first + row];
    }
}

int cell_bounds(CellBounds *task, int n_threads)
{
    task->loop = (ParallelFor){
        .work = bound_piece, .task = task, .n_pieces = task->n_pieces, .scratch_bytes = scratch_bytes(task)};
    return parallel_for(&task->loop, n_threads);
}
