/* Declarations shared by the module's files. All functions work on memory owned by NumPy, without holding the GIL. */

#ifndef DUBITO_STEPS_H
#define DUBITO_STEPS_H

#include "portable.h"

/* Why a run of steps ended; see dubito.native. */
enum { DONE = 0, OUTSIDE = 1, UNSURE = 2 };

/* A front: see dubito.engines.lazy.front.Front. */
typedef struct {
    int64_t n;
    const double *squared; /* (n, n) */
    const double *error;   /* (n,) */
    const double *weights; /* (n,) */
    double unit;
    int by_pick;
} Front;

/* See dubito.engines.lazy.front.Threshold. */
typedef struct {
    double value;
    int64_t row;
} Threshold;

static inline int admits(Threshold threshold, double value, int64_t row)
{
    return value > threshold.value || (value == threshold.value && row < threshold.row);
}

/* Write the first ``size`` of n candidates by bound (largest first, ties to the lowest row) to ``rows``, ascending, and
   the next one to ``next``. Picked candidates, whose bound is negative, are skipped. ``subset`` holds ascending rows to
   choose from; NULL for all. Returns how many were written, or -1 if memory ran out. */
int64_t first_in_order(const double *bound, const int64_t *subset, int64_t n, int64_t size, int64_t *rows, Threshold *next,
                       int n_threads);

/* Greedy picks inside a front. */
typedef struct {
    double *low, *high;   /* (n,) intervals, lowered in place */
    const int64_t *rows;  /* (n,) candidates' indices */
    int64_t *picks;       /* (limit,) */
    double *pick_priorities; /* (limit,) squared, when picked; upper bounds unless is_exact */
    uint8_t *is_exact;    /* (limit,) */
    int64_t *unsure;      /* (n,) */
    int64_t n_picks, n_unsure;
} Picking;

int pick_greedily(const Front *front, Picking *run, Threshold threshold, int64_t limit);

/* Steps of a beam over a short list of m candidates: see dubito.engines.lazy.beam.ShortList. */
typedef struct {
    int64_t m, width, n_words, n_leaves;
    const double *common_low, *common_high; /* (m,) */
    const double *near, *far;               /* (m, m) */
    const int64_t *scores, *positions, *rows; /* (m,) fixed-point doubt, position in the front, candidate's index */
    double *own_low, *own_high;             /* (width, m) bounds after own picks; own_high after common picks, too */
    int32_t *order;                         /* (width, m) candidates, highest first */
    uint64_t *sets;                         /* (width, n_words) own picks, a bit for each position in the front */
    int64_t *totals;                        /* (width,) */
    int32_t *parents, *picks;               /* (limit, width); parents are -1 for children without living descendants */
    double *pick_priorities;                /* (limit, width) squared, when picked; upper bounds unless is_exact */
    uint8_t *is_exact;                      /* (limit, width) */
    int64_t *unsure;                        /* (width,) configurations whose intervals do not determine their first candidates */
    int64_t n_unsure;
} Beam;

/* Returns the number of steps made, or -1 if memory ran out; ``why`` says why they ended. */
int64_t step_beam(Beam *beam, Threshold threshold, int64_t limit, int *why);

/* Lower and upper bounds (n_picks, m) on the priorities of listed candidates after each pick. Returns 0 if memory ran
   out. */
int bounds_between(const Front *front, const int64_t *picks, int64_t n_picks, const int64_t *rows, int64_t m, double *low,
                   double *high);

/* Lower the intervals (n_leaves, m) of listed candidates by each configuration's own picks; -1 where picked. Returns 0 if
   memory ran out. */
int own_intervals(const Front *front, const int64_t *picks, const int64_t *starts, int64_t n_leaves, const int64_t *rows,
                  int64_t m, double *low, double *high);

/* Convert rows (n, d) of a finite float16 matrix, or its first n if ``rows`` is NULL, to float32. */
void float16_rows(const uint16_t *matrix, const int64_t *rows, float *out, int64_t n, int64_t d);

#endif
