/* Pairwise squared distances of the points of a front. */

#ifndef DUBITO_PAIRWISE_SQ_DISTANCES_H
#define DUBITO_PAIRWISE_SQ_DISTANCES_H

#include "thread_pool.h"
#include "points.h"

typedef struct {
    Space space; /* its center is ignored */
    Numbers pool;
    int64_t n;
    const int64_t *rows;      /* (n,) of the pool */
    const double *middle;     /* (d,) the new origin */
    double *sizes, *squared;  /* (n,) squared lengths and (n, n) squared distances, in the space's scale */
    double *points, *panels;  /* (n, d) and the same by columns, both padded with 0 */
    int64_t tiles;            /* in a piece */
    ParallelFor loop;
} PairwiseDistances;

/* Returns 0 if memory ran out. */
int pairwise_sq_distances(PairwiseDistances *task, int n_threads);

#endif
