/* Computations on candidates and references: refreshing, first bounds, and small problems. */

#ifndef DUBITO_REFRESH_H
#define DUBITO_REFRESH_H

#include "thread_pool.h"
#include "points.h"
#include "products.h"

/* Rounding constants of dubito.engines.lazy.bounds, and of this problem. */
typedef struct {
    double scale;       /* factor of shifted points */
    double unit;        /* scale²: factor of squared distances */
    double slack;       /* relative error of the bounds by sketches */
    double floor, floor_length, round_up, round_down, smallest, beyond;
    double shift;       /* error of a distance caused by shifting, relative to the sum of the point's length and the distance */
    double spread;      /* relative error of a length in float32, from adding its terms */
    double max_passed;  /* a sketch that leaves a larger share of the pairs is useless */
    double needed;      /* candidates whose limit falls below this are left unfinished */
} Constants;

#define N_CONSTANTS (sizeof(Constants) / sizeof(double))

/* Exact priorities: the algorithm of dubito.engines.cpu.kernels.CandidateGroup, a row at a time. */
typedef struct {
    Space space;
    References references;
    const float *directions;              /* (d, PANEL); NULL if points are their own sketches */
    const float *panels;                  /* (panels, width, PANEL): references' targets */
    int64_t width;                        /* numbers in a target */
    Constants constants;
    int64_t n;
    const int64_t *rows;                  /* (n,) of the pool */
    const int32_t *seen;                  /* (n,) ascending */
    const double *weights;                /* (n,) */
    double *limits, *squared;             /* (n,) upper bounds on squared priorities; exact squared distances */
    uint8_t *is_unfinished;                      /* (n,) limit fell below ``needed`` */
    int64_t n_bounded, n_passed;          /* pairs in earlier calls: compared, and not ruled out */
    int64_t bounded, passed;              /* the same in this call */
    int64_t max_rows;                     /* in a piece */
    const int64_t *starts;                /* (pieces + 1,) */
    ParallelFor loop;
} Refresh;

enum { REFRESHED = 0, USELESS = 1, NO_MEMORY = 2 };

/* Returns USELESS if the sketch rules out too few pairs; the output is then invalid. */
int refresh(Refresh *task, int n_threads);

/* Sketch and pack the references from ``start`` on: see dubito.engines.cpu.references. */
typedef struct {
    Space space;
    References references;
    const float *directions; /* as above */
    int64_t width, start;
    double slack;
    double *sizes;           /* (references,) squared lengths */
    float *targets, *panels; /* (references, width) and (panels, width, PANEL) */
    int64_t tiles;           /* in a piece */
    ParallelFor loop;
} PackReferences;

int pack_references(PackReferences *task, int n_threads);

/* The nearest of m columns for each row, by products. */
typedef struct {
    const float *rows, *panels; /* (n, k) and (panels, k, PANEL) */
    const float *offsets;       /* (m,) subtracted from a column's products */
    int64_t n, k, m;
    int64_t stride, n_best;     /* consider every stride-th column; keep n_best of them */
    int32_t *columns;           /* (n, n_best) largest first */
    float *largest;             /* (n,) largest product of all columns */
    int64_t tiles;              /* in a piece */
    ParallelFor loop;
} TopK;

int top_k(TopK *task, int n_threads);

/* The nearest of a few references for each candidate, by products only. */
typedef struct {
    Space space;
    Numbers pool;
    int64_t n, block;
    const int64_t *rows;
    const float *panel, *sizes; /* (d, PANEL) and (PANEL,); padded with infinitely far references */
    double grow, floor, unit;   /* factor of a point's squared length; FLOOR; scale² */
    const double *weights;      /* of the pool's rows; NULL if all are 1 */
    double level;
    double *bounds;             /* (n,) upper bounds on squared distances */
    uint16_t *nearest;          /* (n,) */
    uint8_t *is_high;           /* (n,) whether the weighted bound is above the level */
    ParallelFor loop;
} AnchorBounds;

int anchor_bounds(AnchorBounds *task, int n_threads);

/* Candidates compared with all references of their cells, by products only. */
typedef struct {
    Space space;
    References references;
    const float *sizes;          /* (references,) term of each in a squared distance */
    const int64_t *members;      /* references of all cells, concatenated */
    const int64_t *cell_starts;  /* (cells + 1,) */
    const int64_t *rows;         /* (n,) of the pool */
    const int64_t *piece_starts; /* (pieces + 1,) a piece is at most PANEL candidates of one cell */
    const int64_t *piece_cells;  /* (pieces,) */
    int64_t n_pieces;
    double grow, floor, unit;    /* as above */
    double *bounds;              /* (n,) lowered in place */
    ParallelFor loop;
} CellBounds;

int cell_bounds(CellBounds *task, int n_threads);

/* A small problem. A later call can continue with the same arrays. */
typedef struct {
    Space space;
    Numbers pool, labeled;
    const int64_t *rows, *labeled_rows; /* (n,) of the pool, (n_labeled,) of the labeled matrix */
    int64_t n, n_labeled;
    const float *others;                 /* (n_labeled, d) shifted */
    int is_bounded;                      /* whether ``bounds`` holds first bounds; otherwise they are computed */
    float *panels, *sizes;               /* (panels, d, PANEL) others times -2, and (panels · PANEL,) their terms */
    Constants constants;
    const double *weights;               /* (n,) */
    double *bounds;                      /* (n,) upper bounds on squared priorities; -1 once picked */
    double *exact;                       /* (n,) squared distances to the references seen */
    int32_t *seen;                       /* (n,) picks seen; negative before the labeled points are seen */
    int64_t n_before;                    /* number of picks that serve as labeled points: the first of a cold start */
    int64_t n_picks, limit, capacity;    /* number of picks: so far, after this call, and at most */
    int64_t *picks;                      /* (capacity,) */
    double *pick_priorities;             /* (capacity,) exact squared priorities */
    double *picked;                      /* (capacity, d) */
} Small;

/* Upper bounds (n,) on squared distances to the nearest of m references, from products (n, m) of points (n, d) with the
   references, times -2, and the references' terms (m,). */
void bound_rows(const float *points, const float *products, const float *sizes, double *bounds, int64_t n, int64_t m,
                int64_t d, double grow, double floor, double unit);

#define PICKED (-1.0)

/* Pack the labeled points and bound the candidates by them. Returns 0 if memory ran out. */
int init_small(const Small *task);

/* Returns 0 if memory ran out. */
int pick_small(const Small *task);

#endif
