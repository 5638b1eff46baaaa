/* The largest magnitude of many numbers. */

#ifndef DUBITO_MAGNITUDE_H
#define DUBITO_MAGNITUDE_H

#include "points.h"

/* Of n numbers of half, single or double precision; a NaN where there is one; below 0 where there was no memory. */
double magnitude(const Numbers *numbers, int64_t n, int n_threads);

#endif
