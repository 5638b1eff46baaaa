/* Coverage: distances to the labeled rows, pairs of near rows, and greedy picks. See dubito.engines.cpu.coverage. */

#ifndef DUBITO_COVERAGE_H
#define DUBITO_COVERAGE_H

#include "codes.h"
#include "points.h"
#include "products.h"
#include "thread_pool.h"

#include <math.h>

/* Rounding constants of dubito.engines.lazy.bounds, and the reach. Lengths and distances are those of shifted points. */
typedef struct {
    double scale, unit;           /* of shifted points, and of their squared distances */
    double spread, shift, floor_length; /* errors of a length in float32: relative, of shifting, absolute */
    double round_up, smallest;
    double reach, scaled_reach;   /* R², and R² of shifted points */
} CoverageConstants;

#define N_COVERAGE_CONSTANTS (sizeof(CoverageConstants) / sizeof(double))

/* Points of a matrix, in any order. A head holds the length of the remainder and the first k - 1 coordinates, or all
   features. */
typedef struct {
    int64_t n, k;
    int has_full;
    const float *head;    /* (n, k), readable for TILE rows more */
    const float *full;    /* (n, d) shifted points if ``has_full``; otherwise they are read from the matrix */
    const float *length;  /* (n,) */
    const int64_t *rows;  /* (n,) rows of the matrix */
    double slack;         /* error of the squared distance of two heads, relative to the points' squared lengths */
    Codes codes, fine;    /* of heads; of all features, unless heads hold these */
    Numbers matrix;       /* data is NULL if C cannot read it */
} Points;

/* Reading points from their matrix. */
typedef struct {
    Space space;
    CoverageConstants constants;
    Points points;           /* rows to read, and codes to write */
    const int64_t *order;    /* (d,) features in the order in which heads hold them; used without directions */
    const float *directions; /* (panels, d, PANEL); NULL without panels */
    int64_t n_panels;
    int is_whole;            /* whether heads hold all features */
    double error;            /* of a head's coordinates, relative to the length of the point */
    float *head, *full, *length; /* outputs; full may be NULL */
} PointReader;

int read_points(PointReader *task, int n_threads);

/* Copy rows of ``row_bytes`` bytes in another order. */
int take_rows(const void *from, const int64_t *order, int64_t n, int64_t row_bytes, void *to, int n_threads);

#define FLOOR 4e-30       /* exceeds what squared distances of heads lose to underflow */
#define NEAR (1.0 + 1e-6) /* exceeds the rounding of limits and kernels to float32 */

/* Bounds on a distance. */
typedef struct {
    double low, high;
} Interval;

/* All features of a point, which C must be able to read. ``scratch`` and ``buffer`` hold 2·d and d numbers. */
INLINE const float *view_point(const Points *points, int64_t i, const Space *space, double *scratch, float *buffer)
{
    return points->full ? points->full + i * space->d
                        : view_shifted(&points->matrix, points->rows[i], space, scratch, buffer);
}

/* Bounds on a distance that was computed with the errors of shifting points and of float32. */
INLINE Interval distance_bounds(const CoverageConstants *constants, double distance, double length)
{
    double error = constants->shift * (length + distance) + constants->floor_length + constants->spread * distance;
    return (Interval){distance > error ? distance - error : 0.0, distance + error};
}

/* Bounds on the distance between ``point`` and another point, from their difference in float32. */
INLINE Interval bounds_from_difference(const CoverageConstants *constants, const Space *space, const float *point,
                                       double length, const Points *others, int64_t other, double *scratch, float *buffer)
{
    const float *second = view_point(others, other, space, scratch, buffer);
    return distance_bounds(constants, sqrt(squared_distance(point, second, space->d)), length);
}

/* The squared distance of two points' fine codes, divided by the squared step. */
INLINE int32_t fine_squared(const Codes *one, int64_t i, const Codes *other, int64_t j)
{
    int32_t product = multiply_two_codes(one->codes + i * one->n_codes, other->codes + j * one->n_codes, one->n_codes);
    return one->sizes[2 * i] + other->sizes[2 * j + 1] - 2 * product;
}

/* The largest distance, in steps, of the fine codes of two points whose distance is at most ``limit``; ``length`` is that of
   the first point. */
INLINE double max_fine_distance(const CoverageConstants *constants, const Codes *one, int64_t i, const Codes *other, int64_t j,
                                double length, double limit)
{
    double error = constants->shift * length + constants->floor_length;
    limit = (limit + error) * (1.0 + 2.0 * (constants->shift + constants->spread) + 1e-12);
    return (limit + (double)one->errors[i] + other->errors[j]) * (1.0 / one->step);
}

/* Exact squared distances of points to the nearest of other points. Both are sorted by cell, and divided into leaves. A leaf
   holds consecutive points of one cell: up to MOST_ROWS points, or up to PANEL others. */
#define MOST_ROWS (16 * TILE)

typedef struct {
    Space space;
    CoverageConstants constants;
    Points points, others;
    double *squared; /* (n,) in the order of the points; lowered in place */
    int64_t n_leaves, n_other_leaves, n_cells;
    const int64_t *starts, *other_starts; /* (leaves + 1,) */
    const int64_t *cells, *other_cells;   /* (leaves,) */
    const float *edges;        /* (other leaves, cells) see fill_edges */
    const float *longest;      /* (other leaves,) the length of the longest point of each leaf */
    const float *centers;      /* (panels, k, PANEL) of the cells */
    const float *gaps, *slack; /* (cells, cells) see dubito.engines.cpu.coverage.pairs */
    int64_t first, n_pieces;   /* the leaves of this call */
    ParallelFor loop;
} Nearest;

int find_nearest(Nearest *task, int n_threads);

/* A point, a candidate near it, and an upper bound on their kernel; the candidate is -1 in unused entries. */
typedef struct {
    int32_t row, candidate;
    float kernel;
} Pair;

/* At most PANEL consecutive points of one cell. */
typedef struct {
    float farthest, longest, error; /* the largest limit (-1 if there is none), length, and error of codes */
    float has_candidates;
} Leaf;

/* The cover and weight of a row of the pool. They are read together, so they lie next to each other in memory. */
typedef struct {
    double cover, weight;
} Covered;

/* All pairs of a row and a candidate within the row's limit. */
typedef struct {
    Space space;
    CoverageConstants constants;
    Points points;
    const int64_t *numbers;    /* (n,) the numbers of the points in ``pairs`` */
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
    const Covered *covered;    /* (n_rows,) */
    double *sums;              /* (candidates,) sums of gains, to add to; NULL: store pairs instead */
    int64_t first, n_pieces;   /* the leaves of this call, compared with all before them */
    Pair *pairs;
    int64_t n_pairs, capacity;
    int64_t is_full;
    ParallelFor loop;
} PairSearch;

/* ``edges[leaf][cell]`` is the maximum of g(cell) - g(own cell) over the points of the leaf, where g(cell) is a point's
   product with the center of that cell. */
int fill_edges(PairSearch *task, int n_threads);

/* ``is_full`` is set if there were more pairs than ``capacity``. */
int search_pairs(PairSearch *task, int n_threads);

/* Sort pairs by candidate: those of candidate i start at ``starts[i]``. Returns 0 if memory ran out, and -1 if a pair has a
   candidate that does not exist. */
int group_pairs(const Pair *pairs, int64_t n_pairs, int64_t n_candidates, int64_t *starts, int32_t *rows, float *kernels,
                int n_threads);

/* The state of a greedy run; see dubito.engines.cpu.coverage.gains. */
typedef struct {
    Space space;
    CoverageConstants constants;
    Numbers pool;              /* data is NULL if C cannot read it */
    int64_t n, n_candidates, n_classes;
    const int64_t *sources;    /* (n,) row of each point in the matrix ``pool`` */
    const int64_t *numbers;    /* (n,) row of each point in the pool */
    const int64_t *candidates; /* (candidates,) the point of each */
    Covered *covered;          /* (n,) */
    const double *costs;       /* (candidates,) may be NULL */
    const int64_t *classes;    /* (candidates,) NULL without quotas */
    int64_t *remaining;        /* (classes,) */
    const int64_t *starts;     /* (candidates,) where the pairs of each begin */
    int64_t *stops;            /* (candidates,) and end */
    int32_t *rows;             /* (pairs,) points */
    float *upper;              /* (pairs,) bounds on kernels */
    double *exact;             /* (pairs,) kernels of candidates whose pairs are EXACT */
    uint8_t *pair_state;       /* (candidates,) */
    double *bound;             /* (candidates,) upper bounds on gain / cost */
    int64_t *stamp;            /* (candidates,) the number of picks when each bound was computed */
    int64_t *heap;             /* (candidates,) the first candidates by bound */
    int64_t *picks;            /* (budget,) */
    double *gained;            /* (budget,) */
    int64_t *state;            /* (3,) size of the heap, picks, the first candidate not in the heap or -1 */
} Gains;

/* What is stored of a candidate's pairs: nothing, upper bounds on kernels, or exact kernels. */
enum { NO_PAIRS = 0, BOUNDED = 1, EXACT = 2 };

enum { PICKED_ALL = 0, NEEDS_PAIRS = 1, NEEDS_EXACT = 2, TIME_OUT = 3 };

/* Pick until there are ``limit`` picks. If pairs are missing or must be made exact by the caller, they are those of the first
   candidate of the heap. Returns why it ended, or -1 if memory ran out. */
int pick_covering(Gains *run, int64_t limit, int64_t max_work, int n_threads);

/* Update the bounds of n candidates; with ``is_exact``, make them exact. Returns 0 if memory ran out. */
int update_gains(Gains *run, const int64_t *candidates, int64_t n, int is_exact, int n_threads);

#endif
