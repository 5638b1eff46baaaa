/* Greedy picks of a small problem: the candidate with the highest upper bound is refreshed, and picked if its bound is still
   the highest. See dubito.engines.cpu.small. */

#include "extremes.h"
#include "refresh.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define BLOCK 64
#define AT_ONCE (MAX_TILES * TILE)

static const float ZEROS[PANEL];

void bound_rows(const float *points, const float *products, const float *sizes, double *bounds, int64_t n, int64_t m,
                int64_t d, double grow, double floor, double unit)
{
    for (int64_t row = 0; row < n; row++) {
        double squared = grow * squared_length(points + row * d, d) + floor + least_sum(products + row * m, sizes, m);
        bounds[row] = (squared > 0.0 ? squared : 0.0) / unit;
    }
}

/* First bounds: pack the labeled points, and bound all candidates by one product with them. */

static void pack(const Small *task)
{
    int64_t d = task->space.d, n_columns = (task->n_labeled + PANEL - 1) / PANEL * PANEL;
    for (int64_t other = 0; other < n_columns; other++) {
        const float *point = task->others + other * d;
        float *column = task->panels + other / PANEL * d * PANEL + other % PANEL;
        int is_point = other < task->n_labeled;
        for (int64_t i = 0; i < d; i++)
            column[i * PANEL] = is_point ? -2.0f * point[i] : 0.0f;
        task->sizes[other] = is_point ? (float)((1.0 + task->constants.slack) * squared_length(point, d)) : FLT_MAX;
    }
}

static void bound(const Small *task, int64_t first, int64_t n, double *scratch)
{
    const Constants *constants = &task->constants;
    int64_t d = task->space.d, n_tiles = (n + TILE - 1) / TILE;
    float *points = (float *)(scratch + 2 * d), *products = points + AT_ONCE * d, least[AT_ONCE];
    for (int64_t i = n * d; i < n_tiles * TILE * d; i++)
        points[i] = 0.0f;
    for (int64_t row = 0; row < n; row++) {
        read_shifted(&task->pool, task->rows[first + row], &task->space, scratch, points + row * d);
        least[row] = FLT_MAX;
    }
    for (int64_t start = 0; start < task->n_labeled; start += PANEL) {
        multiply_tiles(points, n_tiles, d, task->panels + start * d, products, PANEL, NULL);
        for (int64_t row = 0; row < n; row++) {
            float found = least_sum(products + row * PANEL, task->sizes + start, PANEL);
            least[row] = found < least[row] ? found : least[row];
        }
    }
    for (int64_t row = 0; row < n; row++) {
        double squared = (1.0 + constants->slack) * squared_length(points + row * d, d) + constants->floor + least[row];
        task->bounds[first + row] = (squared > 0.0 ? squared : 0.0) / constants->unit;
    }
}

int init_small(const Small *task)
{
    int64_t d = task->space.d, n = task->n;
    pack(task);
    if (!task->is_bounded) {
        double *scratch = malloc(sizeof(double) * (size_t)(2 * d) + sizeof(float) * (size_t)(AT_ONCE * (d + PANEL)));
        if (scratch == NULL)
            return 0;
        for (int64_t first = 0; first < n; first += AT_ONCE)
            bound(task, first, n - first < AT_ONCE ? n - first : AT_ONCE, scratch);
        free(scratch);
    }
    for (int64_t candidate = 0; candidate < n; candidate++)
        task->bounds[candidate] *= task->weights[candidate];
    for (int64_t pick = 0; pick < task->n_before; pick++)
        task->bounds[task->picks[pick]] = PICKED;
    return 1;
}

/* Scratch memory of a run. */
typedef struct {
    double *tops;               /* (blocks,) the highest bound of each block */
    double *one, *other, *scratch; /* (d,), (d,), (2·d,) */
    float *point;               /* (d,) */
    float longest;              /* largest term of a labeled point */
} Run;

static int allocate(const Small *task, Run *run)
{
    int64_t d = task->space.d, n_blocks = (task->n + BLOCK - 1) / BLOCK;
    run->tops = malloc(sizeof(double) * (size_t)(n_blocks + 4 * d) + sizeof(float) * (size_t)d);
    if (run->tops == NULL)
        return 0;
    run->one = run->tops + n_blocks;
    run->other = run->one + d;
    run->scratch = run->other + d;
    run->point = (float *)(run->scratch + 2 * d);
    run->longest = largest(task->sizes, task->n_labeled);
    return 1;
}

static void find_top(const Small *task, Run *run, int64_t block)
{
    int64_t stop = (block + 1) * BLOCK < task->n ? (block + 1) * BLOCK : task->n;
    run->tops[block] = highest(task->bounds + block * BLOCK, stop - block * BLOCK);
}

/* The candidate with the highest bound, ties to the lowest index. */
static int64_t first_candidate(const Small *task, const Run *run)
{
    int64_t n_blocks = (task->n + BLOCK - 1) / BLOCK, best = 0, candidate;
    for (int64_t block = 1; block < n_blocks; block++)
        best = run->tops[block] > run->tops[best] ? block : best;
    for (candidate = best * BLOCK; candidate < task->n - 1 && task->bounds[candidate] != run->tops[best]; candidate++)
        ;
    return candidate;
}

static void set_bound(const Small *task, Run *run, int64_t candidate, double bound)
{
    task->bounds[candidate] = bound;
    find_top(task, run, candidate / BLOCK);
}

/* Lower ``exact`` by the exact squared distances to the points of a panel within the limit. */
static double nearest_exact(const Small *task, Run *run, const float *squared, int64_t start, double limit, double exact)
{
    int64_t stop = task->n_labeled - start < PANEL ? task->n_labeled - start : PANEL;
    for (int64_t other = 0; other < stop; other++) {
        double found;
        if (squared[other] > limit)
            continue;
        read_exactly(&task->labeled, task->labeled_rows[start + other], &task->space, run->scratch, run->other);
        found = exact_sq_distance(run->one, run->other, run->scratch, task->space.d);
        exact = found < exact ? found : exact;
    }
    return exact;
}

/* The exact squared distance to the nearest labeled point; products select the points that may be nearest. A bound is off
   by at most twice the slack; the third slack covers rounding in the comparison. */
static double nearest_labeled(const Small *task, Run *run, int64_t row)
{
    const Constants *constants = &task->constants;
    int64_t d = task->space.d;
    double error, limit = INFINITY, exact = INFINITY;
    float squared[PANEL];
    read_shifted(&task->pool, row, &task->space, run->scratch, run->point);
    error = 3.0 * (constants->slack * ((double)squared_length(run->point, d) + run->longest) + constants->floor);
    for (int64_t start = 0; start < task->n_labeled; start += PANEL) {
        double high;
        multiply_row(run->point, d, task->panels + start * d, task->sizes + start, squared);
        high = (double)least_sum(squared, ZEROS, PANEL) + error;
        limit = high < limit ? high : limit;
        exact = nearest_exact(task, run, squared, start, limit, exact);
    }
    return exact;
}

static void refresh_candidate(const Small *task, Run *run, int64_t candidate, int64_t n_picks)
{
    int64_t d = task->space.d, first = task->seen[candidate];
    read_exactly(&task->pool, task->rows[candidate], &task->space, run->scratch, run->one);
    if (first < 0) {
        task->exact[candidate] = nearest_labeled(task, run, task->rows[candidate]);
        first = task->n_before;
    }
    for (int64_t pick = first; pick < n_picks; pick++) {
        double squared = exact_sq_distance(run->one, task->picked + pick * d, run->scratch, d);
        task->exact[candidate] = squared < task->exact[candidate] ? squared : task->exact[candidate];
    }
    task->seen[candidate] = (int32_t)n_picks;
    set_bound(task, run, candidate, task->exact[candidate] * task->weights[candidate]);
}

int pick_small(const Small *task)
{
    Run run;
    if (!allocate(task, &run))
        return 0;
    for (int64_t block = 0; block * BLOCK < task->n; block++)
        find_top(task, &run, block);
    for (int64_t n_picks = task->n_picks; n_picks < task->limit; n_picks++) {
        int64_t candidate = first_candidate(task, &run);
        while (task->bounds[candidate] > 0.0 && task->seen[candidate] < n_picks) {
            refresh_candidate(task, &run, candidate, n_picks);
            candidate = first_candidate(task, &run);
        }
        task->picks[n_picks] = candidate;
        task->pick_priorities[n_picks] = task->bounds[candidate];
        read_exactly(&task->pool, task->rows[candidate], &task->space, run.scratch, task->picked + n_picks * task->space.d);
        set_bound(task, &run, candidate, PICKED);
    }
    free(run.tops);
    return 1;
}
