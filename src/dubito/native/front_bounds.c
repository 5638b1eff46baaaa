/* Intervals of the priorities in a front after picks, with the same results as dubito.engines.lazy.front. */

#include "steps.h"

#include <stdlib.h>

#define PICKED (-1.0)

/* Listed candidates with their errors and weights, gathered once for all picks. */
typedef struct {
    const int64_t *rows;
    double *errors, *weights;
    int64_t n;
} Listed;

static int gather_listed(const Front *front, const int64_t *rows, int64_t n, Listed *into)
{
    *into = (Listed){rows, malloc(sizeof(double) * (size_t)(2 * n + 1)), NULL, n};
    if (into->errors == NULL)
        return 0;
    into->weights = into->errors + n;
    for (int64_t i = 0; i < n; i++) {
        into->errors[i] = front->error[rows[i]];
        into->weights[i] = front->weights[rows[i]];
    }
    return 1;
}

WIDE static void bound(const Front *front, int64_t pick, const Listed *listed, double *restrict low,
                       double *restrict high)
{
    const double *squared = front->squared + pick * front->n, *errors = listed->errors, *weights = listed->weights;
    double error = front->error[pick], unit = front->unit;
    for (int64_t i = 0; i < listed->n; i++) {
        double slack = error + errors[i], own = squared[listed->rows[i]], below = own - slack;
        double weight = front->by_pick ? front->weights[pick] : weights[i];
        low[i] = (below > 0.0 ? below : 0.0) * unit * weight;
        high[i] = (own + slack) * unit * weight;
    }
}

int bounds_between(const Front *front, const int64_t *picks, int64_t n_picks, const int64_t *rows, int64_t m, double *low,
                   double *high)
{
    Listed listed;
    if (!gather_listed(front, rows, m, &listed))
        return 0;
    for (int64_t i = 0; i < n_picks; i++)
        bound(front, picks[i], &listed, low + i * m, high + i * m);
    free(listed.errors);
    return 1;
}

WIDE static void lower(double *restrict values, const double *restrict by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = by[i] < values[i] ? by[i] : values[i];
}

/* The bounds of each pick, computed once even if several configurations have the pick. */
typedef struct {
    int64_t *slot, *position; /* (n,) index of a candidate's bounds, and its position in the list; -1 if it has none */
    double *bounds;        /* (slots, 2, m) */
    int64_t n_slots;
} Scratch;

static int allocate(Scratch *scratch, int64_t n, int64_t n_picks, int64_t m)
{
    int64_t most = n_picks < n ? n_picks : n;
    *scratch = (Scratch){.slot = malloc(sizeof(int64_t) * (size_t)(2 * n + 1))};
    scratch->bounds = malloc(sizeof(double) * (size_t)(2 * most * m + 1));
    if (scratch->slot == NULL || scratch->bounds == NULL)
        return 0;
    scratch->position = scratch->slot + n;
    for (int64_t i = 0; i < 2 * n; i++)
        scratch->slot[i] = -1;
    return 1;
}

static const double *bounds_of(Scratch *scratch, const Front *front, int64_t pick, const Listed *listed)
{
    int64_t m = listed->n;
    if (scratch->slot[pick] < 0) {
        double *new_bounds = scratch->bounds + 2 * m * scratch->n_slots;
        scratch->slot[pick] = scratch->n_slots++;
        bound(front, pick, listed, new_bounds, new_bounds + m);
    }
    return scratch->bounds + 2 * m * scratch->slot[pick];
}

static void lower_leaves(const Front *front, const int64_t *picks, const int64_t *starts, int64_t n_leaves,
                         const Listed *listed, Scratch *scratch, double *low, double *high)
{
    int64_t m = listed->n;
    for (int64_t i = 0; i < m; i++)
        scratch->position[listed->rows[i]] = i;
    for (int64_t leaf = 0; leaf < n_leaves; leaf++) {
        for (int64_t i = starts[leaf]; i < starts[leaf + 1]; i++) {
            const double *bounds = bounds_of(scratch, front, picks[i], listed);
            lower(low + leaf * m, bounds, m);
            lower(high + leaf * m, bounds + m, m);
        }
        for (int64_t i = starts[leaf]; i < starts[leaf + 1]; i++)
            if (scratch->position[picks[i]] >= 0)
                low[leaf * m + scratch->position[picks[i]]] = high[leaf * m + scratch->position[picks[i]]] = PICKED;
    }
}

int own_intervals(const Front *front, const int64_t *picks, const int64_t *starts, int64_t n_leaves, const int64_t *rows,
                  int64_t m, double *low, double *high)
{
    Listed listed;
    Scratch scratch;
    int has_list = gather_listed(front, rows, m, &listed), has_scratch = allocate(&scratch, front->n, starts[n_leaves], m);
    if (has_list && has_scratch)
        lower_leaves(front, picks, starts, n_leaves, &listed, &scratch, low, high);
    free(listed.errors);
    free(scratch.slot);
    free(scratch.bounds);
    return has_list && has_scratch;
}
