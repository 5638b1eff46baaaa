/* Greedy picking inside a front, with the same results as dubito.engines.lazy.front.FrontPicking. */

#include "extremes.h"
#include "steps.h"

#define BLOCK 64
#define PICKED (-1.0)

/* Lower the intervals by a pick. */
WIDE static void lower(const Front *front, int64_t pick, double *restrict low, double *restrict high)
{
    const double *squared = front->squared + pick * front->n, *error = front->error, *weights = front->weights;
    double own_error = error[pick], own_weight = weights[pick], unit = front->unit;
    for (int64_t i = 0; i < front->n; i++) {
        double slack = error[i] + own_error, weight = front->by_pick ? own_weight : weights[i];
        double near = (squared[i] - slack) * unit * weight, far = (squared[i] + slack) * unit * weight;
        low[i] = near < low[i] ? near : low[i];
        high[i] = far < high[i] ? far : high[i];
    }
    low[pick] = high[pick] = PICKED;
}

/* The first index of the highest value; ``second`` is the highest of all others. */
static int64_t first_two(const double *values, int64_t n, double *second)
{
    int64_t best_block = 0, best;
    double top = PICKED, next = PICKED;
    for (int64_t start = 0; start < n; start += BLOCK) {
        double here = highest(values + start, n - start < BLOCK ? n - start : BLOCK);
        if (here > top) {
            next = top;
            top = here;
            best_block = start;
        } else if (here > next) {
            next = here;
        }
    }
    for (best = best_block; best < n - 1 && values[best] != top; best++)
        ;
    for (int64_t i = best_block; i < n && i < best_block + BLOCK; i++)
        next = i != best && values[i] > next ? values[i] : next;
    *second = next;
    return best;
}

static void find_unsure(const Front *front, Picking *run, double floor)
{
    run->n_unsure = 0;
    for (int64_t i = 0; i < front->n; i++)
        if (run->high[i] >= floor && run->low[i] < run->high[i])
            run->unsure[run->n_unsure++] = i;
}

int pick_greedily(const Front *front, Picking *run, Threshold threshold, int64_t limit)
{
    while (run->n_picks < limit) {
        double second, top, lowest;
        int64_t best = first_two(run->high, front->n, &second);
        top = run->high[best];
        lowest = run->low[best];
        if (top <= 0.0 || top < threshold.value)
            return OUTSIDE;
        if (lowest <= threshold.value || lowest <= second) {
            /* Not below 0: picked candidates are at -1, and a lower bound may be negative. */
            double floor = lowest > threshold.value ? lowest : threshold.value;
            find_unsure(front, run, floor > 0.0 ? floor : 0.0);
            if (run->n_unsure)
                return UNSURE;
            if (!admits(threshold, top, run->rows[best]))
                return OUTSIDE;
        }
        run->picks[run->n_picks] = best;
        run->pick_priorities[run->n_picks] = top;
        run->is_exact[run->n_picks++] = lowest == top;
        lower(front, best, run->low, run->high);
    }
    return DONE;
}
