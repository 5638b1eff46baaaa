/* How a small problem begins: what is labelled is packed, and every candidate bounded by all of it, one product. */

#include "extremes.h"
#include "refresh.h"

#include <float.h>
#include <stdlib.h>

#define AT_ONCE (MOST_TILES * TILE)

static void pack(const Small *task)
{
    int64_t d = task->space.d, n_columns = (task->n_labelled + PANEL - 1) / PANEL * PANEL;
    for (int64_t other = 0; other < n_columns; other++) {
        const float *point = task->others + other * d;
        float *column = task->panels + other / PANEL * d * PANEL + other % PANEL;
        int is_there = other < task->n_labelled;
        for (int64_t i = 0; i < d; i++)
            column[i * PANEL] = is_there ? -2.0f * point[i] : 0.0f;
        task->sizes[other] = is_there ? (float)((1.0 + task->figures.slack) * squared_length(point, d)) : FLT_MAX;
    }
}

/* Candidates from ``first`` on; ``room`` for numbers on the way, points and products. */
static void bound(const Small *task, int64_t first, int64_t n, double *room)
{
    const Figures *figures = &task->figures;
    int64_t d = task->space.d, n_tiles = (n + TILE - 1) / TILE;
    float *points = (float *)(room + 2 * d), *products = points + AT_ONCE * d, least[AT_ONCE];
    for (int64_t i = n * d; i < n_tiles * TILE * d; i++)
        points[i] = 0.0f;
    for (int64_t row = 0; row < n; row++) {
        read_shifted(&task->pool, task->rows[first + row], &task->space, room, points + row * d);
        least[row] = FLT_MAX;
    }
    for (int64_t start = 0; start < task->n_labelled; start += PANEL) {
        multiply_tiles(points, n_tiles, d, task->panels + start * d, products, PANEL, NULL);
        for (int64_t row = 0; row < n; row++) {
            float found = least_sum(products + row * PANEL, task->sizes + start, PANEL);
            least[row] = found < least[row] ? found : least[row];
        }
    }
    for (int64_t row = 0; row < n; row++) {
        double squared = (1.0 + figures->slack) * squared_length(points + row * d, d) + figures->floor + least[row];
        task->bounds[first + row] = (squared > 0.0 ? squared : 0.0) / figures->unit;
    }
}

int begin_small(const Small *task)
{
    int64_t d = task->space.d, n = task->n;
    pack(task);
    if (!task->is_bounded) {
        double *room = malloc(sizeof(double) * (size_t)(2 * d) + sizeof(float) * (size_t)(AT_ONCE * (d + PANEL)));
        if (room == NULL)
            return 0;
        for (int64_t first = 0; first < n; first += AT_ONCE)
            bound(task, first, n - first < AT_ONCE ? n - first : AT_ONCE, room);
        free(room);
    }
    for (int64_t place = 0; place < n; place++)
        task->bounds[place] *= task->weights[place];
    for (int64_t pick = 0; pick < task->n_before; pick++)
        task->bounds[task->picks[pick]] = PICKED;
    return 1;
}
