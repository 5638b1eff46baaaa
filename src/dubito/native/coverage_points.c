/* Points as coverage compares them, read from a matrix: heads, lengths and codes. */

#include "coverage.h"
#include "steps.h"

#include <math.h>
#include <string.h>

#define AT_ONCE (MAX_TILES * TILE) /* rows that are multiplied by the directions together */

/* Write the head of a shifted point: ``coordinates`` holds its first coordinates, or is NULL if these are features. */
static void write_head(const PointReader *task, const float *shifted, const float *coordinates, float squared, float *head)
{
    int64_t width = task->is_whole ? task->points.k : task->points.k - 1;
    float *first = task->is_whole ? head : head + 1;
    for (int64_t i = 0; i < width; i++)
        first[i] = coordinates ? coordinates[i] : shifted[task->order[i]];
    if (!task->is_whole) {
        double left = squared + 4.0 * task->error * squared - (double)squared_length(first, width);
        head[0] = (float)sqrt(left > 0.0 ? left : 0.0);
    }
}

static void read_piece(void *data, int64_t piece, void *scratch)
{
    PointReader *task = data;
    const Points *points = &task->points;
    int64_t d = task->space.d, k = points->k, first = piece * AT_ONCE, stride = task->n_panels * PANEL;
    int64_t n = points->n - first < AT_ONCE ? points->n - first : AT_ONCE, n_tiles = (n + TILE - 1) / TILE;
    double *wide = scratch;
    float *shifted = (float *)(wide + 2 * d), *coordinates = shifted + AT_ONCE * d;
    for (int64_t i = 0; i < n; i++)
        read_shifted(&points->matrix, points->rows[first + i], &task->space, wide, shifted + i * d);
    memset(shifted + n * d, 0, sizeof(float) * (size_t)((n_tiles * TILE - n) * d));
    for (int64_t panel = 0; panel < task->n_panels; panel++)
        multiply_tiles(shifted, n_tiles, d, task->directions + panel * d * PANEL, coordinates + panel * PANEL, stride, NULL);
    for (int64_t i = 0; i < n; i++) {
        const float *own = shifted + i * d;
        float *head = task->head + (first + i) * k, squared = squared_length(own, d);
        task->length[first + i] = sqrtf(squared);
        write_head(task, own, task->n_panels ? coordinates + i * stride : NULL, squared, head);
        encode_point(head, k, &points->codes, first + i);
        if (points->fine.n_codes)
            encode_point(own, d, &points->fine, first + i);
        if (task->full)
            memcpy(task->full + (first + i) * d, own, sizeof(float) * (size_t)d);
    }
}

int read_points(PointReader *task, int n_threads)
{
    int64_t d = task->space.d;
    ParallelFor loop = {.work = read_piece,
                        .task = task,
                        .n_pieces = (task->points.n + AT_ONCE - 1) / AT_ONCE,
                        .scratch_bytes = (int64_t)sizeof(double) * 2 * d +
                                         (int64_t)sizeof(float) * AT_ONCE * (d + task->n_panels * PANEL)};
    return parallel_for(&loop, n_threads);
}

/* Rows in another order */

#define ROWS_AT_ONCE 256

typedef struct {
    const char *from;
    char *to;
    const int64_t *order;
    int64_t n, row_bytes;
} RowCopy;

static void copy_piece(void *data, int64_t piece, void *scratch)
{
    RowCopy *task = data;
    int64_t first = piece * ROWS_AT_ONCE, stop = first + ROWS_AT_ONCE < task->n ? first + ROWS_AT_ONCE : task->n;
    (void)scratch;
    for (int64_t i = first; i < stop; i++)
        memcpy(task->to + i * task->row_bytes, task->from + task->order[i] * task->row_bytes, (size_t)task->row_bytes);
}

int take_rows(const void *from, const int64_t *order, int64_t n, int64_t row_bytes, void *to, int n_threads)
{
    RowCopy task = {from, to, order, n, row_bytes};
    ParallelFor loop = {.work = copy_piece, .task = &task, .n_pieces = (n + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE};
    return parallel_for(&loop, n_threads);
}
