/* A front's distances, and sketches: products whose results are small enough to keep. */

#include "products.h"

#include <stdlib.h>

typedef struct {
    const double *points, *sizes, *panels; /* (tiles, TILE, d), (n,), (panels, d, WIDE_PANEL) */
    double *squared;
    int64_t n, d, tiles; /* ``tiles``: of a piece */
    Shared shared;
} Among;

static int64_t ceiling(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static int64_t least(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* Tiles in a piece: few, where all threads would not have one else. */
static int64_t tiles_for(int64_t n_tiles, int n_threads)
{
    int64_t tiles = n_tiles / (n_threads > 0 ? n_threads : 1);
    return tiles < 1 ? 1 : least(tiles, MOST_TILES);
}

/* Points by columns, 0 beyond the last. */
static void pack(const double *points, double *panels, int64_t n, int64_t d)
{
    for (int64_t start = 0; start < n; start += WIDE_PANEL)
        for (int64_t i = 0; i < d; i++)
            for (int64_t column = 0; column < WIDE_PANEL; column++)
                panels[start * d + i * WIDE_PANEL + column] = start + column < n ? points[(start + column) * d + i] : 0.0;
}

/* Distances of a row to those of a panel, written both ways: a distance is the same either way. */
static void keep_distances(const Among *task, int64_t row, int64_t start, const double *products)
{
    int64_t stop = least(start + WIDE_PANEL, task->n);
    for (int64_t other = start; other < stop; other++) {
        double squared = -2.0 * products[other - start] + task->sizes[other] + task->sizes[row];
        task->squared[row * task->n + other] = squared;
        task->squared[other * task->n + row] = squared;
    }
}

static void measure_piece(void *given, int64_t piece, void *room)
{
    const Among *task = given;
    int64_t first = piece * task->tiles * TILE, n_rows = least(task->tiles * TILE, task->n - first), d = task->d;
    double *products = room;
    for (int64_t start = first / WIDE_PANEL * WIDE_PANEL; start < task->n; start += WIDE_PANEL) {
        multiply_tiles_wide(task->points + first * d, ceiling(n_rows, TILE), d, task->panels + start * d, products,
                            WIDE_PANEL);
        for (int64_t row = 0; row < n_rows; row++)
            keep_distances(task, first + row, start, products + row * WIDE_PANEL);
    }
}

int distances_among(const double *points, const double *sizes, double *squared, int64_t n, int64_t d, int n_threads)
{
    int64_t n_tiles = ceiling(n, TILE), n_panels = ceiling(n, WIDE_PANEL), n_packed = n_panels * d * WIDE_PANEL;
    double *panels = malloc((size_t)(n_packed + n_tiles * TILE * d + 1) * sizeof(double)), *rows = panels + n_packed;
    Among task = {rows, sizes, panels, squared, n, d, tiles_for(n_tiles, n_threads), {0}};
    int is_done;
    if (panels == NULL)
        return 0;
    pack(points, panels, n, d);
    for (int64_t i = 0; i < n_tiles * TILE * d; i++)
        rows[i] = i < n * d ? points[i] : 0.0;
    task.shared = (Shared){.work = measure_piece,
                           .task = &task,
                           .n_pieces = ceiling(n_tiles, task.tiles),
                           .room_bytes = task.tiles * TILE * WIDE_PANEL * (int64_t)sizeof(double)};
    is_done = share(&task.shared, n_threads);
    free(panels);
    return is_done;
}

typedef struct {
    const float *rows, *panel;
    float *out;
    int64_t n, k, tiles;
    Shared shared;
} Sketching;

/* What does not fill a tile goes by way of a room that does. */
static void sketch_last(const Sketching *task, int64_t first, float *room)
{
    int64_t k = task->k, many = task->n - first;
    float *products = room + TILE * k;
    for (int64_t i = 0; i < TILE * k; i++)
        room[i] = i < many * k ? task->rows[first * k + i] : 0.0f;
    multiply_tiles(room, 1, k, task->panel, products, PANEL, NULL);
    for (int64_t i = 0; i < many * PANEL; i++)
        task->out[first * PANEL + i] = products[i];
}

static void sketch_piece(void *given, int64_t piece, void *room)
{
    const Sketching *task = given;
    int64_t first = piece * task->tiles * TILE, n_rows = least(task->tiles * TILE, task->n - first);
    multiply_tiles(task->rows + first * task->k, n_rows / TILE, task->k, task->panel, task->out + first * PANEL, PANEL,
                   NULL);
    if (n_rows % TILE)
        sketch_last(task, first + n_rows / TILE * TILE, room);
}

int sketch_rows(const float *rows, const float *panel, float *out, int64_t n, int64_t k, int n_threads)
{
    Sketching task = {rows, panel, out, n, k, tiles_for(ceiling(n, TILE), n_threads), {0}};
    task.shared = (Shared){.work = sketch_piece,
                           .task = &task,
                           .n_pieces = ceiling(n, task.tiles * TILE),
                           .room_bytes = TILE * (k + PANEL) * (int64_t)sizeof(float)};
    return share(&task.shared, n_threads);
}
