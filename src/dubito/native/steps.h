/* What the parts of the module share. Every function works on memory that NumPy owns, and holds no lock of Python's. */

#ifndef DUBITO_STEPS_H
#define DUBITO_STEPS_H

#include <stdint.h>

/* One build runs everywhere: where the linker can choose at load time, loops are compiled for wider registers too. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

/* Why a run of steps ended. */
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

/* What stands first outside: see dubito.engines.lazy.front.Threshold. */
typedef struct {
    double value;
    int64_t row;
} Threshold;

static inline int admits(Threshold bar, double value, int64_t row)
{
    return value > bar.value || (value == bar.value && row < bar.row);
}

/* The first ``size`` of n candidates by their bounds (largest first; of equal ones the lowest row), or of those ``among``,
   which ascend; none that was picked, whose bound is below 0. Into ``rows``, ascending; how many, and what comes next. -1
   where memory ran out. */
int64_t first_in_order(const double *bound, const int64_t *among, int64_t n, int64_t size, int64_t *rows, Threshold *next,
                       int n_threads);

/* Greedy picks inside a front. */
typedef struct {
    double *low, *high;   /* (n,) intervals, lowered in place */
    const int64_t *rows;  /* (n,) candidates' indices */
    int64_t *picks;       /* (limit,) */
    double *heights;      /* (limit,) */
    uint8_t *is_exact;    /* (limit,) */
    int64_t *unsure;      /* (n,) */
    int64_t n_picks, n_unsure;
} Picking;

int pick_greedily(const Front *front, Picking *run, Threshold bar, int64_t limit);

/* Steps of a beam over a short list of m candidates: see dubito.engines.lazy.beam.ShortList. */
typedef struct {
    int64_t m, width, n_words, n_leaves;
    const double *common_low, *common_high; /* (m,) */
    const double *near, *far;               /* (m, m) */
    const int64_t *scores, *places, *rows;  /* (m,) fixed-point doubt, position in the front, candidate's index */
    double *own_low, *own_high;             /* (width, m) what own picks leave; of upper bounds, and common ones */
    int32_t *order;                         /* (width, m) candidates, highest first */
    uint64_t *sets;                         /* (width, n_words) own picks, a bit for each position in the front */
    int64_t *totals;                        /* (width,) */
    int32_t *parents, *picks;               /* (limit, width); parents are -1 where no one left descends from a child */
    double *heights;                        /* (limit, width) */
    uint8_t *is_exact;                      /* (limit, width) */
    int64_t *unsure;                        /* (width,) configurations whose first candidates intervals do not tell */
    int64_t n_unsure;
} Beam;

/* Steps made, or -1 where memory ran out; ``why`` says what ended them. */
int64_t step_beam(Beam *beam, Threshold bar, int64_t limit, int *why);

/* Lower and upper bounds (n_picks, m) on what picks leave to listed candidates. Whether there was memory for it. */
int bounds_between(const Front *front, const int64_t *picks, int64_t n_picks, const int64_t *rows, int64_t m, double *low,
                   double *high);

/* Intervals (n_leaves, m) of listed candidates, lowered by configurations' own picks; -1 where picked. */
int own_intervals(const Front *front, const int64_t *picks, const int64_t *starts, int64_t n_leaves, const int64_t *rows,
                  int64_t m, double *low, double *high);

/* Rows (n, d) of a matrix of finite halves, or its first n where ``rows`` is NULL, as float32. */
void widen_rows(const uint16_t *halves, const int64_t *rows, float *out, int64_t n, int64_t d);

#endif
