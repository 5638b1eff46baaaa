/* Greedy picks by exact distances alone, in the order of additions of dubito.distances.settle. */

#include "points.h"
#include "steps.h"

#include <math.h>

#define PICKED (-1.0)

/* Lower what is left by a reference. */
static void lower(const Exact *run, const double *reference)
{
    for (int64_t i = 0; i < run->n; i++) {
        /* Nothing falls below 0, and what is picked stands there. */
        if (run->left[i] <= 0.0)
            continue;
        double squared = settle(run->points + i * run->d, reference, run->room, run->d) * run->weights[i];
        run->left[i] = squared < run->left[i] ? squared : run->left[i];
    }
}

static int64_t highest(const double *left, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = left[i] > left[best] ? i : best;
    return best;
}

void pick_exactly(const Exact *run, int64_t first, int64_t limit)
{
    for (int64_t i = 0; i < run->n; i++)
        run->left[i] = run->weights[i] > 0.0 ? INFINITY : 0.0;
    for (int64_t reference = 0; reference < run->m; reference++)
        lower(run, run->references + reference * run->d);
    for (int64_t step = 0; step < limit; step++) {
        int64_t best = step == 0 && first >= 0 ? first : highest(run->left, run->n);
        run->picks[step] = best;
        run->heights[step] = step == 0 && first >= 0 ? INFINITY : run->left[best];
        run->left[best] = PICKED;
        lower(run, run->points + best * run->d);
    }
}
