/* Coverage: distances to the labeled rows, pairs of near rows, and greedy picks. See dubito.engines.cpu.coverage. */

#ifndef DUBITO_COVERAGE_H
#define DUBITO_COVERAGE_H

#include "points.h"
#include "products.h"
#include "thread_pool.h"

/* Rounding constants of dubito.engines.lazy.bounds, and the reach. Lengths and distances are those of shifted points. */
typedef struct {
    double scale, unit;           /* of shifted points, and of their squared distances */
    double spread, shift, floor_length; /* errors of a length in float32: relative, by shifting, absolute */
    double round_up, smallest;
    double reach, scaled_reach;   /* R², and R² of shifted points */
} CoverageConstants;

#define N_COVERAGE_CONSTANTS (sizeof(CoverageConstants) / sizeof(double))

/* Points in an order of their own. ``head`` holds the first coordinates of each and, if those are not all, the length of
   the remainder; ``tail`` two parts of further coordinates, each followed by the length of what then remains and by 0 to
   the next multiple of LANES. */
#define LANES 16
#define MOST_CODES 512 /* products of more might overflow */

typedef struct {
    int64_t n, k, t, middle, end; /* the first part of a tail ends at ``middle``, its last coordinate before ``end`` */
    int has_full;
    const float *head; /* (n, k), readable for TILE rows more */
    const float *tail; /* (n, t); t is 0 if there is none */
    const float *full; /* (n, d) shifted points if ``has_full``; otherwise they are read from the matrix */
    const float *half; /* (n,) half of a squared length, less the error of a product */
    const float *length; /* (n,) */
    const int64_t *rows; /* (n,) of the matrix */
    int64_t n_codes;     /* 0: there are none */
    double step, slack;  /* of codes; see dubito.engines.cpu.coverage.space */
    const int8_t *codes; /* (n, n_codes), readable for TILE rows more: heads are codes times step, but for an error */
    const int32_t *sizes; /* (n, 2) the squared length of the codes, and the same plus 256 times their sum */
    const float *errors; /* (n,) */
    Numbers matrix;    /* data is NULL if C cannot read it */
} Points;

/* Exact squared distances of points to the nearest of others. Both are in the order of their cells, and cut into leaves of
   one cell each: up to MOST_ROWS points, and up to PANEL others. */
#define MOST_ROWS (MAX_TILES * TILE)

typedef struct {
    Space space;
    CoverageConstants constants;
    Points points, others;
    double *squared; /* (n,) in the order of the points, lowered */
    int64_t n_leaves, n_other_leaves, n_cells;
    const int64_t *starts, *other_starts; /* (leaves + 1,) */
    const int64_t *cells, *other_cells;   /* (leaves,) */
    const float *edges;        /* (other leaves, cells) see fill_edges */
    const float *longest;      /* (other leaves,) the length of the longest of a leaf */
    const float *centers;      /* (panels, k, PANEL) of the cells */
    const float *gaps, *slack; /* (cells, cells) see dubito.engines.cpu.coverage.pairs */
    int64_t first, n_pieces;   /* the leaves of this call */
    ParallelFor loop;
} Nearest;

int find_nearest(Nearest *task, int n_threads);

/* A row of the pool, a candidate near it, and an upper bound on their kernel; the candidate is -1 in unused entries. */
typedef struct {
    int32_t row, candidate;
    float kernel;
} Pair;

/* Consecutive points, PANEL at most, of one cell. */
typedef struct {
    float farthest, longest, error; /* the largest limit, -1 if there is none, length, and error of codes */
    float has_candidates;
} Leaf;

/* All pairs of a row and a candidate within the row's limit. */
typedef struct {
    Space space;
    CoverageConstants constants;
    Points points;
    const int64_t *numbers;    /* (n,) rows of the pool */
    const float *limits;       /* (n,) squared distances, rounded up; -1 if no candidate matters to the row */
    const int32_t *candidates; /* (n,) number of a candidate in the order of the points, or -1 */
    int64_t n_leaves, n_cells;
    const int64_t *starts;     /* (leaves + 1,) */
    const int64_t *cells;      /* (leaves,) */
    const Leaf *leaves;        /* (leaves,) */
    const float *centers;      /* (panels, k, PANEL) of the cells */
    float *edges;              /* (leaves, cells) and its transpose: see fill_edges */
    float *edges_by_cell;
    const float *gaps, *slack; /* (cells, cells) see dubito.engines.cpu.coverage.pairs */
    const double *weights, *cover; /* of the pool's rows */
    double *sums;              /* (candidates,) of gains, to which all is added; NULL: keep pairs */
    int64_t first, n_pieces;   /* the leaves of this call, compared with all before them */
    Pair *pairs;
    int64_t n_pairs, capacity;
    int is_full;
    ParallelFor loop;
} PairSearch;

/* ``edges[leaf][cell]``: the largest of g(cell) - g(own cell) over the leaf, with g a point's product with a center. */
int fill_edges(PairSearch *task, int n_threads);

/* ``is_full`` is set if there were more pairs than ``capacity``. */
int search_pairs(PairSearch *task, int n_threads);

/* Sort pairs by candidate: those of the i-th go to ``starts[i]`` and on. Returns 0 if memory ran out. */
int group_pairs(const Pair *pairs, int64_t n_pairs, int64_t n_candidates, int64_t *starts, int32_t *rows, float *kernels,
                int n_threads);

/* The state of a greedy run; see dubito.engines.cpu.coverage.gains. */
typedef struct {
    Space space;
    CoverageConstants constants;
    Numbers pool;              /* data is NULL if C cannot read it */
    int64_t n, n_candidates, n_classes;
    const int64_t *sources;    /* (n,) rows of the matrix that ``pool`` reads */
    const int64_t *candidates; /* (candidates,) rows of the pool */
    const double *weights, *costs; /* (n,) and (candidates,); costs may be NULL */
    const int64_t *classes;    /* (candidates,) NULL without quotas */
    int64_t *remaining;        /* (classes,) */
    double *cover;             /* (n,) */
    const int64_t *starts;     /* (candidates,) where the pairs of each begin */
    int64_t *stops;            /* (candidates,) and end */
    int32_t *rows;             /* (pairs,) */
    float *upper;              /* (pairs,) bounds on kernels */
    double *exact;             /* (pairs,) kernels of settled candidates */
    uint8_t *level;            /* (candidates,) */
    double *bound;             /* (candidates,) on the gain over the cost */
    int64_t *stamp;            /* (candidates,) picks known to the bound */
    int64_t *heap;             /* (candidates,) */
    int64_t *picks;            /* (budget,) */
    double *gained;            /* (budget,) */
    int64_t *state;            /* (4,) size of the heap, picks, candidates brought up to date, candidates settled */
} Gains;

enum { CLOSED = 0, OPEN = 1, EXACT = 2 };

enum { PICKED_ALL = 0, NEEDS_PAIRS = 1, NEEDS_EXACT = 2, TIME_OUT = 3 };

/* Pick until there are ``limit`` picks; a candidate whose pairs are missing or must be settled stands first in the heap.
   Returns why it ended, or -1 if memory ran out. */
int pick_covering(Gains *run, int64_t limit, int64_t most_work);

/* Bring some candidates up to date, exactly if ``is_exact``. Returns 0 if memory ran out. */
int update_gains(Gains *run, const int64_t *which, int64_t many, int is_exact, int n_threads);

#endif
