/* First bounds: every candidate's nearest of a few references, one product over the pool. */

#include "refresh.h"

static int64_t room_for(const Nearest *task)
{
    return (int64_t)sizeof(double) * 2 * task->space.d + (int64_t)sizeof(float) * TILE * task->space.d;
}

static void keep_nearest(const Nearest *task, int64_t row, const float *products, double own)
{
    float least = -2.0f * products[0] + task->sizes[0];
    int which = 0;
    for (int place = 1; place < PANEL; place++) {
        float value = -2.0f * products[place] + task->sizes[place];
        which = value < least ? place : which;
        least = value < least ? value : least;
    }
    own += least;
    task->bounds[row] = (own > 0.0 ? own : 0.0) / task->unit;
    task->nearest[row] = (uint16_t)which;
}

static void compare(const Nearest *task, int64_t first, int64_t n, void *room)
{
    int64_t d = task->space.d;
    float *points = (float *)((double *)room + 2 * d), products[TILE * PANEL];
    for (int64_t i = n * d; i < TILE * d; i++)
        points[i] = 0.0f;
    for (int64_t row = 0; row < n; row++)
        read_shifted(&task->pool, task->rows[first + row], &task->space, room, points + row * d);
    task->multiply(points, d, task->panel, products, PANEL);
    for (int64_t row = 0; row < n; row++) {
        double own = task->grow * squared_length(points + row * d, d) + task->floor;
        keep_nearest(task, first + row, products + row * PANEL, own);
    }
}

static void compare_piece(void *given, int64_t number, void *room)
{
    const Nearest *task = given;
    int64_t stop = (number + 1) * task->block < task->n ? (number + 1) * task->block : task->n;
    for (int64_t first = number * task->block; first < stop; first += TILE)
        compare(task, first, stop - first < TILE ? stop - first : TILE, room);
}

int find_nearest(Nearest *task, int n_threads)
{
    task->multiply = best_multiply();
    task->shared = (Shared){.work = compare_piece,
                            .task = task,
                            .n_pieces = (task->n + task->block - 1) / task->block,
                            .room_bytes = room_for(task)};
    return share(&task->shared, n_threads);
}
