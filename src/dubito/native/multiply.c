/* The product of rows and panels on several threads. */

#include "thread_pool.h"
#include "products.h"

#include <stddef.h>

#define WIDE_ROW 4096

typedef struct {
    const float *rows, *panels;
    float *out;
    int64_t n, k, n_panels, tiles;
    ParallelFor loop;
} Product;

int64_t tiles_for(int64_t n_tiles, int64_t k, int n_threads)
{
    int64_t tiles = n_tiles / (n_threads > 0 ? n_threads : 1);
    return tiles < 1 || k > WIDE_ROW ? 1 : tiles < MAX_TILES ? tiles : MAX_TILES;
}

/* Copy an incomplete last tile to padded scratch memory. */
static void multiply_last(const Product *task, int64_t first, int64_t many, int64_t panel, float *scratch)
{
    int64_t k = task->k, stride = task->n_panels * PANEL;
    float *products = scratch + TILE * k;
    for (int64_t i = 0; i < TILE * k; i++)
        scratch[i] = i < many * k ? task->rows[first * k + i] : 0.0f;
    multiply_tiles(scratch, 1, k, task->panels + panel * k * PANEL, products, PANEL, NULL);
    for (int64_t row = 0; row < many; row++)
        for (int64_t i = 0; i < PANEL; i++)
            task->out[(first + row) * stride + panel * PANEL + i] = products[row * PANEL + i];
}

static void multiply_piece(void *data, int64_t piece, void *scratch)
{
    const Product *task = data;
    int64_t first = piece * task->tiles * TILE, left = task->n - first, k = task->k, stride = task->n_panels * PANEL;
    int64_t n_rows = left < task->tiles * TILE ? left : task->tiles * TILE, last = n_rows / TILE * TILE;
    for (int64_t panel = 0; panel < task->n_panels; panel++) {
        multiply_tiles(task->rows + first * k, n_rows / TILE, k, task->panels + panel * k * PANEL,
                       task->out + first * stride + panel * PANEL, stride, NULL);
        if (last < n_rows)
            multiply_last(task, first + last, n_rows - last, panel, scratch);
    }
}

int multiply_rows(const float *rows, const float *panels, float *out, int64_t n, int64_t k, int64_t n_panels,
                  int n_threads)
{
    int64_t tiles = tiles_for((n + TILE - 1) / TILE, k, n_threads);
    Product task = {rows, panels, out, n, k, n_panels, tiles, {0}};
    task.loop = (ParallelFor){.work = multiply_piece,
                           .task = &task,
                           .n_pieces = (n + tiles * TILE - 1) / (tiles * TILE),
                           .scratch_bytes = TILE * (k + PANEL) * (int64_t)sizeof(float)};
    return parallel_for(&task.loop, n_threads);
}
