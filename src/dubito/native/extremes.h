/* Minima and maxima of arrays without NaN. */

#ifndef DUBITO_EXTREMES_H
#define DUBITO_EXTREMES_H

#include <stdint.h>

/* The smallest of values[i] + added[i]. */
float least_sum(const float *values, const float *added, int64_t n);

float largest(const float *values, int64_t n);
double highest(const double *values, int64_t n);

/* The first index of a value; 0 if it is missing. */
int64_t index_of(const float *values, float value, int64_t n);

#endif
