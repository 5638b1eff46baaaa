/* The plain way's steps, as dubito.engines.cpu.plain takes them in NumPy: the same numbers. */

#include "steps.h"

#define BLOCK 1024

WIDE void lower_nearest(const float *products, const float *added, float *restrict nearest, int64_t m, int64_t n)
{
    for (int64_t start = 0; start < n; start += BLOCK) {
        int64_t stop = n - start < BLOCK ? n : start + BLOCK;
        for (int64_t other = 0; other < m; other++) {
            const float *row = products + other * n;
            float more = added[other];
            for (int64_t i = start; i < stop; i++)
                nearest[i] = row[i] + more < nearest[i] ? row[i] + more : nearest[i];
        }
    }
}
