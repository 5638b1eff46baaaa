/* Reading points from a matrix, a row at a time: exactly in float64, or shifted in float32. */

#ifndef DUBITO_POINTS_H
#define DUBITO_POINTS_H

#include "portable.h"

#include <stdint.h>

/* A matrix of float16, float32 or float64. */
typedef struct {
    const void *data;
    int itemsize;
} Numbers;

/* References: some rows of the labeled matrix, then picks, which are rows of the pool. */
typedef struct {
    Numbers pool, labeled;
    const int64_t *labeled_rows, *picks;
    int64_t n_labeled, n_all;
} References;

/* The matrix and row of a reference. */
const Numbers *source(const References *references, int64_t reference, int64_t *row);

/* The transformation of rows: see dubito.engines.cpu.sketch.Sketch. */
typedef struct {
    int64_t d;
    const double *center; /* NULL if points are not shifted */
    double scale;
    int is_cosine, in_single; /* in_single: float16 and float32 rows are shifted in float32 */
} Space;

/* Read a row in float64, like dubito.core.distances.read_rows; ``scratch`` holds d numbers. */
void read_exactly(const Numbers *from, int64_t row, const Space *space, double *scratch, double *out);

/* Read (x - middle) * scale in float64; returns its squared length. */
double read_centered(const Numbers *from, int64_t row, const Space *space, const double *middle, double *scratch,
                    double *out);

/* Read a shifted row in float32, like Sketch.read; ``scratch`` holds 2·d numbers. */
void read_shifted(const Numbers *from, int64_t row, const Space *space, double *scratch, float *out);

/* The same, without a copy if the row needs no conversion; otherwise the result is in ``out``. */
const float *view_shifted(const Numbers *from, int64_t row, const Space *space, double *scratch, float *out);

/* The squared distance, bit for bit that of dubito.core.distances.exact_sq_distances; ``terms`` holds d numbers. */
double exact_sq_distance(const double *one, const double *other, double *terms, int64_t d);

/* |x|² and |x - y|² in float32, added in an unspecified order. */
float squared_length(const float *point, int64_t d);

#define POINT_LANES 32

#if HAS_VECTORS
typedef float Quad __attribute__((vector_size(16), aligned(4), may_alias));

INLINE float total(const float *lanes)
{
    const Quad *each = (const Quad *)lanes;
    Quad sums = ((each[0] + each[1]) + (each[2] + each[3])) + ((each[4] + each[5]) + (each[6] + each[7]));
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}
#else
INLINE float total(const float *lanes)
{
    float sum = 0.0f;
    for (int lane = 0; lane < POINT_LANES; lane++)
        sum += lanes[lane];
    return sum;
}
#endif

INLINE float squared_distance(const float *one, const float *other, int64_t d)
{
    float lanes[POINT_LANES] = {0.0f}, sum = 0.0f;
    int64_t i = 0;
    for (; i + POINT_LANES <= d; i += POINT_LANES)
        for (int lane = 0; lane < POINT_LANES; lane++) {
            float difference = one[i + lane] - other[i + lane];
            lanes[lane] += difference * difference;
        }
    for (; i < d; i++)
        sum += (one[i] - other[i]) * (one[i] - other[i]);
    return sum + total(lanes);
}

#endif
