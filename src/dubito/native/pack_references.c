/* Sketch references and pack them as operands of products. */

#include "refresh.h"

#include <math.h>
#include <stddef.h>

static int64_t scratch_bytes(const PackReferences *task)
{
    int64_t d = task->space.d;
    return (int64_t)sizeof(double) * 2 * d + (int64_t)sizeof(float) * task->tiles * TILE * (d + PANEL);
}

/* Write the operand of products with probes, to its row and to its panel's column. */
static void write_target(const PackReferences *task, int64_t reference, const float *sketch, double size)
{
    int64_t width = task->width;
    double length = task->directions ? squared_length(sketch, width - 1) : size;
    float *target = task->targets + reference * width;
    float *column = task->panels + reference / PANEL * width * PANEL + reference % PANEL;
    task->sizes[reference] = size;
    for (int64_t i = 0; i < width - 1; i++)
        target[i] = 2.0f * sketch[i];
    target[width - 1] = (float)(task->slack * size - length);
    for (int64_t i = 0; i < width; i++)
        column[i * PANEL] = target[i];
}

static void pack_piece(void *data, int64_t piece, void *scratch)
{
    const PackReferences *task = data;
    int64_t d = task->space.d, first = task->start + piece * task->tiles * TILE, left = task->references.n_all - first;
    int64_t n = left < task->tiles * TILE ? left : task->tiles * TILE, n_tiles = (n + TILE - 1) / TILE;
    float *points = (float *)((double *)scratch + 2 * d), *sketches = points + task->tiles * TILE * d;
    for (int64_t row = 0; row < n; row++) {
        int64_t source_row;
        const Numbers *from = source(&task->references, first + row, &source_row);
        read_shifted(from, source_row, &task->space, scratch, points + row * d);
    }
    for (int64_t i = n * d; i < n_tiles * TILE * d; i++)
        points[i] = 0.0f;
    if (task->directions)
        multiply_tiles(points, n_tiles, d, task->directions, sketches, PANEL, NULL);
    for (int64_t row = 0; row < n; row++)
        write_target(task, first + row, task->directions ? sketches + row * PANEL : points + row * d,
                    squared_length(points + row * d, d));
}

/* Pad the last panel with references that are infinitely far. */
static void pad_last_panel(const PackReferences *task)
{
    int64_t width = task->width, n_all = task->references.n_all;
    float *panel = task->panels + n_all / PANEL * width * PANEL;
    for (int64_t i = 0; n_all % PANEL && i < width; i++)
        for (int64_t column = n_all % PANEL; column < PANEL; column++)
            panel[i * PANEL + column] = i < width - 1 ? 0.0f : -INFINITY;
}

int pack_references(PackReferences *task, int n_threads)
{
    int64_t n_tiles = (task->references.n_all - task->start + TILE - 1) / TILE;
    task->tiles = tiles_for(n_tiles, task->space.d, n_threads);
    task->loop = (ParallelFor){.work = pack_piece,
                            .task = task,
                            .n_pieces = (n_tiles + task->tiles - 1) / task->tiles,
                            .scratch_bytes = scratch_bytes(task)};
    pad_last_panel(task);
    return parallel_for(&task->loop, n_threads);
}
