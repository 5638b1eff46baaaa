/* Candidates brought up to date against references, and bounded by a few of them. */

#ifndef DUBITO_REFRESH_H
#define DUBITO_REFRESH_H

#include "points.h"
#include "products.h"

/* What rounding is worth: numbers of dubito.engines.lazy.rounding, and of this problem. */
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

/* Bringing up to date: see dubito.engines.cpu.refresh, whose steps these are, a row at a time. */
typedef struct {
    Space space;
    Numbers pool, labelled;
    const int64_t *labelled_rows, *picks; /* the rows that references are: labelled ones first, then picks in the pool */
    int64_t n_labelled, n_references;
    const float *directions;              /* (d, PANEL); NULL where points are their own sketches */
    const float *panels;                  /* (panels, width, PANEL): references' targets */
    int64_t width;                        /* numbers in a target */
    Figures figures;
    int64_t n, block;                     /* ``block``: rows in a piece */
    const int64_t *rows;                  /* (n,) of the pool */
    const int32_t *seen;                  /* (n,) ascending */
    const double *weights;                /* (n,) */
    double *limits, *squared;             /* (n,) upper bounds on squared priorities; settled squared distances */
    uint8_t *is_out;                      /* (n,) fell under ``needed`` */
    int64_t n_bounded, n_passed;          /* pairs so far: looked at, and not ruled out */
    int64_t *bounded, *passed;            /* (pieces,) the same of each piece */
    Multiply multiply;
    Shared shared;
} Refresh;

enum { REFRESHED = 0, USELESS = 1, NO_MEMORY = 2 };

/* USELESS where a sketch leaves more to do than it saves: what was written then is not to be used. */
int refresh(Refresh *task, int n_threads);

/* Each candidate's nearest of a few references, by products alone. */
typedef struct {
    Space space;
    Numbers pool;
    int64_t n, block;
    const int64_t *rows;
    const float *panel, *sizes; /* (d, PANEL) and (PANEL,); where there are fewer, the rest is infinitely far */
    double grow, floor, unit;   /* of a point's own squared length; FLOOR; a squared length of 1 in scaled units */
    double *bounds;             /* (n,) upper bounds on squared distances */
    uint16_t *nearest;          /* (n,) */
    Multiply multiply;
    Shared shared;
} Nearest;

int find_nearest(Nearest *task, int n_threads);

#endif
