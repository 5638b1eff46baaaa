/* Compiled as if there were no NaN, or no compiler would take several numbers at a time. */

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

WIDE int64_t place_of(const float *values, float value, int64_t n)
{
    int32_t place = INT32_MAX;
    for (int32_t i = 0; i < n; i++) {
        int32_t here = values[i] == value ? i : INT32_MAX;
        place = here < place ? here : place;
    }
    return place < n ? place : 0;
}
