/* Minima and maxima, computed in separate lanes so that compilers can vectorize them without ignoring infinities and signed
   zeros. */

#include "extremes.h"
#include "steps.h"

#include <float.h>

#define LANES 16

WIDE float least_sum(const float *values, const float *added, int64_t n)
{
    float lanes[LANES], least = FLT_MAX;
    int64_t i = 0;
    for (int lane = 0; lane < LANES; lane++)
        lanes[lane] = FLT_MAX;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            float value = values[i + lane] + added[i + lane];
            lanes[lane] = value < lanes[lane] ? value : lanes[lane];
        }
    for (int lane = 0; lane < LANES; lane++)
        least = lanes[lane] < least ? lanes[lane] : least;
    for (; i < n; i++) {
        float value = values[i] + added[i];
        least = value < least ? value : least;
    }
    return least;
}

WIDE float largest(const float *values, int64_t n)
{
    float lanes[LANES], most = -FLT_MAX;
    int64_t i = 0;
    for (int lane = 0; lane < LANES; lane++)
        lanes[lane] = -FLT_MAX;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    for (int lane = 0; lane < LANES; lane++)
        most = lanes[lane] > most ? lanes[lane] : most;
    for (; i < n; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

WIDE double highest(const double *values, int64_t n)
{
    double lanes[LANES], most = -DBL_MAX;
    int64_t i = 0;
    for (int lane = 0; lane < LANES; lane++)
        lanes[lane] = -DBL_MAX;
    for (; i + LANES <= n; i += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    for (int lane = 0; lane < LANES; lane++)
        most = lanes[lane] > most ? lanes[lane] : most;
    for (; i < n; i++)
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
