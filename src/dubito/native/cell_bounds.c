/* A closer look: candidates by all references of their cells. The candidates are the panel here, packed by the thread that
   takes them, and references are read as they lie. */

#include "refresh.h"

#include <math.h>
#include <stddef.h>

#define TOGETHER 16 /* features of a point that a processor reads at once */

static int64_t room_for(const Closer *task)
{
    int64_t d = task->space.d;
    return (int64_t)sizeof(double) * (2 * d + PANEL) + (int64_t)sizeof(float) * PANEL * (2 * d + TILE + 1);
}

/* Points (n, d) by columns, 0 beyond the last. */
static void pack(const float *points, int64_t n, int64_t d, float *panel)
{
    for (int64_t start = 0; start < d; start += TOGETHER)
        for (int64_t column = 0; column < PANEL; column++)
            for (int64_t i = start; i < d && i < start + TOGETHER; i++)
                panel[i * PANEL + column] = column < n ? points[column * d + i] : 0.0f;
}

static void lower_all(float *restrict least, const float *restrict products, float size)
{
    for (int place = 0; place < PANEL; place++) {
        float squared = -2.0f * products[place] + size;
        least[place] = squared < least[place] ? squared : least[place];
    }
}

static void look_closer_at(void *given, int64_t piece, void *room)
{
    const Closer *task = given;
    int64_t d = task->space.d, first = task->piece_starts[piece], n = task->piece_starts[piece + 1] - first;
    int64_t cell = task->piece_cells[piece], stop = task->cell_starts[cell + 1];
    double *own = (double *)room + 2 * d;
    float *panel = (float *)(own + PANEL), *points = panel + PANEL * d, *products = points + PANEL * d;
    float *least = products + PANEL * TILE;
    for (int64_t row = 0; row < n; row++) {
        read_shifted(&task->references.pool, task->rows[first + row], &task->space, room, points + row * d);
        own[row] = task->grow * squared_length(points + row * d, d) + task->floor;
    }
    pack(points, n, d, panel);
    for (int place = 0; place < PANEL; place++)
        least[place] = INFINITY;
    for (int64_t member = task->cell_starts[cell]; member < stop; member += TILE) {
        int64_t many = stop - member < TILE ? stop - member : TILE;
        for (int64_t i = 0; i < TILE; i++) {
            int64_t row;
            /* The last again, where a tile is not full. */
            const Numbers *from = source(&task->references, task->members[member + (i < many ? i : many - 1)], &row);
            read_shifted(from, row, &task->space, room, points + i * d);
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

int look_closer(Closer *task, int n_threads)
{
    task->shared = (Shared){
        .work = look_closer_at, .task = task, .n_pieces = task->n_pieces, .room_bytes = room_for(task)};
    return share(&task->shared, n_threads);
}
