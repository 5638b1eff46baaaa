/* Greedy picks of a small problem, one after another: whoever stands first by an upper bound is brought up to date, and
   is the next pick where it still stands first. See dubito.engines.cpu.small. */

#include "extremes.h"
#include "refresh.h"

#include <math.h>
#include <stdlib.h>

#define BLOCK 64

static const float NOTHING[PANEL];

void bound_rows(const float *points, const float *products, const float *sizes, double *bounds, int64_t n, int64_t m,
                int64_t d, double grow, double floor, double unit)
{
    for (int64_t row = 0; row < n; row++) {
        double squared = grow * squared_length(points + row * d, d) + floor + least_sum(products + row * m, sizes, m);
        bounds[row] = (squared > 0.0 ? squared : 0.0) / unit;
    }
}

/* What a run keeps for itself. */
typedef struct {
    double *tops;               /* (blocks,) the highest bound of each block */
    double *one, *other, *room; /* (d,), (d,), (2·d,) */
    float *point;               /* (d,) */
    float longest;              /* what a labelled point adds at most */
} Run;

static int make_room(const Small *task, Run *run)
{
    int64_t d = task->space.d, n_blocks = (task->n + BLOCK - 1) / BLOCK;
    run->tops = malloc(sizeof(double) * (size_t)(n_blocks + 4 * d) + sizeof(float) * (size_t)d);
    if (run->tops == NULL)
        return 0;
    run->one = run->tops + n_blocks;
    run->other = run->one + d;
    run->room = run->other + d;
    run->point = (float *)(run->room + 2 * d);
    run->longest = largest(task->sizes, task->n_labelled);
    return 1;
}

static void find_top(const Small *task, Run *run, int64_t block)
{
    int64_t stop = (block + 1) * BLOCK < task->n ? (block + 1) * BLOCK : task->n;
    run->tops[block] = highest(task->bounds + block * BLOCK, stop - block * BLOCK);
}

/* The first place of the highest bound. */
static int64_t first_place(const Small *task, const Run *run)
{
    int64_t n_blocks = (task->n + BLOCK - 1) / BLOCK, best = 0, place;
    for (int64_t block = 1; block < n_blocks; block++)
        best = run->tops[block] > run->tops[best] ? block : best;
    for (place = best * BLOCK; place < task->n - 1 && task->bounds[place] != run->tops[best]; place++)
        ;
    return place;
}

static void set_bound(const Small *task, Run *run, int64_t place, double bound)
{
    task->bounds[place] = bound;
    find_top(task, run, place / BLOCK);
}

/* The exact squared distance to those of a panel that may be nearest. */
static double settle_near(const Small *task, Run *run, const float *squared, int64_t start, double limit, double exact)
{
    int64_t stop = task->n_labelled - start < PANEL ? task->n_labelled - start : PANEL;
    for (int64_t other = 0; other < stop; other++) {
        double found;
        if (squared[other] > limit)
            continue;
        read_exactly(&task->labelled, task->labelled_rows[start + other], &task->space, run->room, run->other);
        found = settle(run->one, run->other, run->room, task->space.d);
        exact = found < exact ? found : exact;
    }
    return exact;
}

/* The exact squared distance to the nearest of what is labelled; products tell which those may be. A bound is off by twice
   the slack at most; the third covers what comparing rounds. */
static double nearest_labelled(const Small *task, Run *run, int64_t row)
{
    const Figures *figures = &task->figures;
    int64_t d = task->space.d;
    double error, limit = INFINITY, exact = INFINITY;
    float squared[PANEL];
    read_shifted(&task->pool, row, &task->space, run->room, run->point);
    error = 3.0 * (figures->slack * ((double)squared_length(run->point, d) + run->longest) + figures->floor);
    for (int64_t start = 0; start < task->n_labelled; start += PANEL) {
        double high;
        multiply_row(run->point, d, task->panels + start * d, task->sizes + start, squared);
        high = (double)least_sum(squared, NOTHING, PANEL) + error;
        limit = high < limit ? high : limit;
        exact = settle_near(task, run, squared, start, limit, exact);
    }
    return exact;
}

static void bring_up_to_date(const Small *task, Run *run, int64_t place, int64_t n_picks)
{
    int64_t d = task->space.d, first = task->seen[place];
    read_exactly(&task->pool, task->rows[place], &task->space, run->room, run->one);
    if (first < 0) {
        task->exact[place] = nearest_labelled(task, run, task->rows[place]);
        first = task->n_before;
    }
    for (int64_t pick = first; pick < n_picks; pick++) {
        double squared = settle(run->one, task->picked + pick * d, run->room, d);
        task->exact[place] = squared < task->exact[place] ? squared : task->exact[place];
    }
    task->seen[place] = (int32_t)n_picks;
    set_bound(task, run, place, task->exact[place] * task->weights[place]);
}

int pick_small(const Small *task)
{
    Run run;
    if (!make_room(task, &run))
        return 0;
    for (int64_t block = 0; block * BLOCK < task->n; block++)
        find_top(task, &run, block);
    for (int64_t n_picks = task->n_picks; n_picks < task->limit; n_picks++) {
        int64_t place = first_place(task, &run);
        while (task->bounds[place] > 0.0 && task->seen[place] < n_picks) {
            bring_up_to_date(task, &run, place, n_picks);
            place = first_place(task, &run);
        }
        task->picks[n_picks] = place;
        task->heights[n_picks] = task->bounds[place];
        read_exactly(&task->pool, task->rows[place], &task->space, run.room, task->picked + n_picks * task->space.d);
        set_bound(task, &run, place, PICKED);
    }
    free(run.tops);
    return 1;
}
