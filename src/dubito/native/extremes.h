/* The smallest and largest of many numbers, none of which is a NaN. */

#ifndef DUBITO_EXTREMES_H
#define DUBITO_EXTREMES_H

#include <stdint.h>

/* The smallest of values with what is added to each. */
float least_sum(const float *values, const float *added, int64_t n);

float largest(const float *values, int64_t n);
double highest(const double *values, int64_t n);

/* The first place of a value; 0 where it is not there. */
int64_t place_of(const float *values, float value, int64_t n);

#endif
