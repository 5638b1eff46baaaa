/* A front's distances, and sketches: products whose results are small enough to keep. */

#include "products.h"

#include <stdlib.h>

#define PIECE (4 * TILE)

typedef struct {
    const double *points, *sizes, *panels; /* (n, d), (n,), (panels, d, WIDE_PANEL) */
    double *squared;
    int64_t n, d;
    MultiplyWide multiply;
    Shared shared;
} Among;

static int64_t ceiling(int64_t n, int64_t by)
{
    return (n + by - 1) / by;
}

static void pack(const double *points, double *panels, int64_t n, int64_t d)
{
    for (int64_t start = 0; start < n; start += WIDE_PANEL)
        for (int64_t i = 0; i < d; i++)
            for (int64_t column = 0; column < WIDE_PANEL; column++)
                panels[start * d + i * WIDE_PANEL + column] = start + column < n ? points[(start + column) * d + i] : 0.0;
}

/* Distances of one row to those from a panel on, written both ways: a distance is the same either way. */
static void keep_distances(const Among *task, int64_t row, int64_t start, const double *products)
{
    int64_t stop = start + WIDE_PANEL < task->n ? start + WIDE_PANEL : task->n;
    for (int64_t other = start; other < stop; other++) {
        double squared = -2.0 * products[other - start] + task->sizes[other] + task->sizes[row];
        task->squared[row * task->n + other] = squared;
        task->squared[other * task->n + row] = squared;
    }
}

static void measure_tile(const Among *task, int64_t first, double *room)
{
    int64_t n = task->n, d = task->d, many = n - first < TILE ? n - first : TILE;
    const double *rows = task->points + first * d;
    double products[TILE * WIDE_PANEL];
    if (many < TILE) {
        for (int64_t i = 0; i < TILE * d; i++)
            room[i] = i < many * d ? rows[i] : 0.0;
        rows = room;
    }
    for (int64_t start = first / WIDE_PANEL * WIDE_PANEL; start < n; start += WIDE_PANEL) {
        task->multiply(rows, d, task->panels + start * d, products, WIDE_PANEL);
        for (int64_t row = 0; row < many; row++)
            keep_distances(task, first + row, start, products + row * WIDE_PANEL);
    }
}

/* A tile from the beginning and one from the end, so that all pieces are about as long. */
static void measure_piece(void *given, int64_t piece, void *room)
{
    const Among *task = given;
    int64_t last = ceiling(task->n, TILE) - 1 - piece;
    measure_tile(task, piece * TILE, room);
    if (last > piece)
        measure_tile(task, last * TILE, room);
}

int distances_among(const double *points, const double *sizes, double *squared, int64_t n, int64_t d, int n_threads)
{
    int64_t n_panels = ceiling(n, WIDE_PANEL);
    double *panels = malloc((size_t)(n_panels * d * WIDE_PANEL) * sizeof(double) + 1);
    Among task = {points, sizes, panels, squared, n, d, best_multiply_wide(), {0}};
    int is_done;
    if (panels == NULL)
        return 0;
    pack(points, panels, n, d);
    task.shared = (Shared){.work = measure_piece,
                           .task = &task,
                           .n_pieces = ceiling(ceiling(n, TILE), 2),
                           .room_bytes = TILE * d * (int64_t)sizeof(double)};
    is_done = share(&task.shared, n_threads);
    free(panels);
    return is_done;
}

typedef struct {
    const float *rows, *panel;
    float *out;
    int64_t n, k;
    Multiply multiply;
    Shared shared;
} Sketching;

static void sketch_piece(void *given, int64_t piece, void *given_room)
{
    const Sketching *task = given;
    int64_t k = task->k, stop = (piece + 1) * PIECE < task->n ? (piece + 1) * PIECE : task->n;
    float *room = given_room, last[TILE * PANEL];
    for (int64_t row = piece * PIECE; row < stop; row += TILE) {
        int64_t many = stop - row < TILE ? stop - row : TILE;
        if (many == TILE) {
            task->multiply(task->rows + row * k, k, task->panel, task->out + row * PANEL, PANEL);
            continue;
        }
        for (int64_t i = 0; i < TILE * k; i++)
            room[i] = i < many * k ? task->rows[row * k + i] : 0.0f;
        task->multiply(room, k, task->panel, last, PANEL);
        for (int64_t i = 0; i < many * PANEL; i++)
            task->out[row * PANEL + i] = last[i];
    }
}

int sketch_rows(const float *rows, const float *panel, float *out, int64_t n, int64_t k, int n_threads)
{
    Sketching task = {rows, panel, out, n, k, best_multiply(), {0}};
    task.shared = (Shared){.work = sketch_piece,
                           .task = &task,
                           .n_pieces = ceiling(n, PIECE),
                           .room_bytes = TILE * k * (int64_t)sizeof(float)};
    return share(&task.shared, n_threads);
}
