/* References taken in: sketched, and packed as products read them. */

#include "refresh.h"

#include <math.h>
#include <stddef.h>

static int64_t room_for(const TakeIn *task)
{
    int64_t d = task->space.d;
    return (int64_t)sizeof(double) * 2 * d + (int64_t)sizeof(float) * task->tiles * TILE * (d + PANEL);
}

/* What products with probes are made with, in a row and in its panel's column. */
static void keep_target(const TakeIn *task, int64_t reference, const float *sketch, double size)
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

static void take_in_piece(void *given, int64_t piece, void *room)
{
    const TakeIn *task = given;
    int64_t d = task->space.d, first = task->start + piece * task->tiles * TILE, left = task->references.n_all - first;
    int64_t n = left < task->tiles * TILE ? left : task->tiles * TILE, n_tiles = (n + TILE - 1) / TILE;
    float *points = (float *)((double *)room + 2 * d), *sketches = points + task->tiles * TILE * d;
    for (int64_t row = 0; row < n; row++) {
        int64_t place;
        const Numbers *from = source(&task->references, first + row, &place);
        read_shifted(from, place, &task->space, room, points + row * d);
    }
    for (int64_t i = n * d; i < n_tiles * TILE * d; i++)
        points[i] = 0.0f;
    if (task->directions)
        multiply_tiles(points, n_tiles, d, task->directions, sketches, PANEL, NULL);
    for (int64_t row = 0; row < n; row++)
        keep_target(task, first + row, task->directions ? sketches + row * PANEL : points + row * d,
                    squared_length(points + row * d, d));
}

/* Beyond the last reference there is what is infinitely far. */
static void close_panel(const TakeIn *task)
{
    int64_t width = task->width, n_all = task->references.n_all;
    float *panel = task->panels + n_all / PANEL * width * PANEL;
    for (int64_t i = 0; n_all % PANEL && i < width; i++)
        for (int64_t column = n_all % PANEL; column < PANEL; column++)
            panel[i * PANEL + column] = i < width - 1 ? 0.0f : -INFINITY;
}

int take_in(TakeIn *task, int n_threads)
{
    int64_t n_tiles = (task->references.n_all - task->start + TILE - 1) / TILE;
    task->tiles = tiles_for(n_tiles, task->space.d, n_threads);
    task->shared = (Shared){.work = take_in_piece,
                            .task = task,
                            .n_pieces = (n_tiles + task->tiles - 1) / task->tiles,
                            .room_bytes = room_for(task)};
    close_panel(task);
    return share(&task->shared, n_threads);
}
