/* Candidates brought up to date against references, and bounded by a few of them. */

#ifndef DUBITO_REFRESH_H
#define DUBITO_REFRESH_H

#include "thread_pool.h"
#include "points.h"
#include "products.h"

/* What rounding is worth: numbers of dubito.engines.lazy.bounds, and of this problem. */
typedef struct {
    double scale;       /* of points as they are shifted */
    double unit;        /* a squared length of 1 in scaled units */
    double slack;       /* of a sketch's bounds */
    double floor, floor_length, round_up, round_down, smallest, beyond;
    double reach;       /* of a point's length and its distance: what shifting moves a length by */
    double spread;      /* of a length in float32: what adding its terms is worth */
    double most_passed; /* the share of pairs beyond which a sketch is of no use */
    double needed;
} Figures;

#define N_FIGURES (sizeof(Figures) / sizeof(double))

/* Bringing up to date: see dubito.engines.cpu.kernels, whose steps these are, a row at a time. */
typedef struct {
    Space space;
    References references;
    const float *directions;              /* (d, PANEL); NULL where points are their own sketches */
    const float *panels;                  /* (panels, width, PANEL): references' targets */
    int64_t width;                        /* numbers in a target */
    Figures figures;
    int64_t n;
    const int64_t *rows;                  /* (n,) of the pool */
    const int32_t *seen;                  /* (n,) ascending */
    const double *weights;                /* (n,) */
    double *limits, *squared;             /* (n,) upper bounds on squared priorities; settled squared distances */
    uint8_t *is_out;                      /* (n,) fell under ``needed`` */
    int64_t n_bounded, n_passed;          /* pairs so far: looked at, and not ruled out */
    int64_t bounded, passed;              /* the same of this call */
    int64_t most_rows;                    /* in a piece */
    const int64_t *starts;                /* (pieces + 1,) */
    Shared shared;
} Refresh;

enum { REFRESHED = 0, USELESS = 1, NO_MEMORY = 2 };

/* USELESS where a sketch leaves more to do than it saves: what was written then is not to be used. */
int refresh(Refresh *task, int n_threads);

/* References taken in from ``start`` on: see dubito.engines.cpu.references, whose targets these are. */
typedef struct {
    Space space;
    References references;
    const float *directions; /* as above */
    int64_t width, start;
    double slack;
    double *sizes;           /* (references,) squared lengths */
    float *targets, *panels; /* (references, width) and (panels, width, PANEL) */
    int64_t tiles;           /* of a piece */
    Shared shared;
} TakeIn;

int take_in(TakeIn *task, int n_threads);

/* Rows compared with m columns by products. */
typedef struct {
    const float *rows, *panels; /* (n, k) and (panels, k, PANEL) */
    const float *offsets;       /* (m,) taken off a column's products */
    int64_t n, k, m;
    int64_t stride, n_best;     /* ``places`` are of every so many columns; how many of them */
    int32_t *places;            /* (n, n_best) largest first */
    float *largest;             /* (n,) of all columns */
    int64_t tiles;              /* of a piece */
    Shared shared;
} Closest;

int find_closest(Closest *task, int n_threads);

/* Each candidate's nearest of a few references, by products alone. */
typedef struct {
    Space space;
    Numbers pool;
    int64_t n, block;
    const int64_t *rows;
    const float *panel, *sizes; /* (d, PANEL) and (PANEL,); where there are fewer, the rest is infinitely far */
    double grow, floor, unit;   /* of a point's own squared length; FLOOR; a squared length of 1 in scaled units */
    const double *weights;      /* of the pool's rows; NULL where all are 1 */
    double level;
    double *bounds;             /* (n,) upper bounds on squared distances */
    uint16_t *nearest;          /* (n,) */
    uint8_t *is_high;           /* (n,) whether a bound, scaled, is above the level */
    Shared shared;
} Nearest;

int find_nearest(Nearest *task, int n_threads);

/* Candidates compared with all references of their cells, by products alone. */
typedef struct {
    Space space;
    References references;
    const float *sizes;          /* (references,) what each adds */
    const int64_t *members;      /* references of all cells, one cell after another */
    const int64_t *cell_starts;  /* (cells + 1,) */
    const int64_t *rows;         /* (n,) of the pool */
    const int64_t *piece_starts; /* (pieces + 1,) candidates of one cell, PANEL at most */
    const int64_t *piece_cells;  /* (pieces,) */
    int64_t n_pieces;
    double grow, floor, unit;    /* as above */
    double *bounds;              /* (n,) lowered */
    Shared shared;
} Closer;

int look_closer(Closer *task, int n_threads);

/* A small problem; it can be gone on with. */
typedef struct {
    Space space;
    Numbers pool, labelled;
    const int64_t *rows, *labelled_rows; /* (n,) of the pool, (n_labelled,) of what is labelled */
    int64_t n, n_labelled;
    const float *others;                 /* (n_labelled, d) shifted */
    int is_bounded;                      /* whether bounds are given: else it begins with its own products */
    float *panels, *sizes;               /* (panels, d, PANEL) those times -2, and (panels · PANEL,) what each adds */
    Figures figures;
    const double *weights;               /* (n,) */
    double *bounds;                      /* (n,) upper bounds on squared priorities; -1 once picked */
    double *exact;                       /* (n,) squared distances to the references seen */
    int32_t *seen;                       /* (n,) picks seen; below 0 where not even what is labelled was */
    int64_t n_before;                    /* picks that are what is labelled: a cold start's first */
    int64_t n_picks, limit, room;        /* there are, are wanted now, and may become in all */
    int64_t *picks;                      /* (room,) */
    double *heights;                     /* (room,) exact squared priorities */
    double *picked;                      /* (room, d) */
} Small;

/* Upper bounds (n,) on squared distances to the nearest of m references: products (n, m) of points (n, d) with them, each
   times -2, and what a reference adds (m,). */
void bound_rows(const float *points, const float *products, const float *sizes, double *bounds, int64_t n, int64_t m,
                int64_t d, double grow, double floor, double unit);

#define PICKED (-1.0)

/* How it begins: what is labelled is packed, and candidates are bounded by it. Whether there was memory for it. */
int begin_small(const Small *task);

/* Whether there was memory for it. */
int pick_small(const Small *task);

#endif
