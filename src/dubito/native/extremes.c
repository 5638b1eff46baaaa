/* Compiled without NaN support, because compilers do not vectorize these loops otherwise. */

#include "extremes.h"
#include "steps.h"

#include <float.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("finite-math-only", "no-signed-zeros")
#endif

WIDE float least_sum(const float *values, const float *added, int64_t n)
{
    float least = FLT_MAX;
    for (int64_t i = 0; i < n; i++) {
        float value = values[i] + added[i];
        least = value < least ? value : least;
    }
    return least;
}

WIDE float largest(const float *values, int64_t n)
{
    float most = -FLT_MAX;
    for (int64_t i = 0; i < n; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

WIDE double highest(const double *values, int64_t n)
{
    double most = -DBL_MAX;
    for (int64_t i = 0; i < n; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

WIDE int64_t index_of(const float *values, float value, int64_t n)
{
    int32_t index = INT32_MAX;
    for (int32_t i = 0; i < n; i++) {
        int32_t here = values[i] == value ? i : INT32_MAX;
        index = here < index ? here : index;
    }
    return index < n ? index : 0;
}
