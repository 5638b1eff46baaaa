/* The distances among the points of a front. */

#ifndef DUBITO_AMONG_H
#define DUBITO_AMONG_H

#include "thread_pool.h"
#include "points.h"

typedef struct {
    Space space; /* its centre is not looked at */
    Numbers pool;
    int64_t n;
    const int64_t *rows;      /* (n,) of the pool */
    const double *middle;     /* (d,) where the points are moved from */
    double *sizes, *squared;  /* (n,) squared lengths and (n, n) squared distances, in the space's scale */
    double *points, *panels;  /* (n, d) and by columns, both with 0 beyond the last */
    int64_t tiles;            /* of a piece */
    Shared shared;
} Among;

/* Whether there was memory for it. */
int distances_among(Among *task, int n_threads);

#endif
