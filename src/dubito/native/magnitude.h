/* The largest magnitude in an array. */

#ifndef DUBITO_MAGNITUDE_H
#define DUBITO_MAGNITUDE_H

#include "points.h"

/* The largest magnitude of n numbers; NaN if one of them is NaN, negative if memory ran out. */
double magnitude(const Numbers *numbers, int64_t n, int n_threads);

#endif
