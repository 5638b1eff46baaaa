/* Reading points, their lengths and distances. */

#include "points.h"
#include "steps.h"

#include <math.h>

#define WIDE_LANES 16

/* Sum by repeatedly adding the upper half of the terms to the lower half. */
WIDE static double fold(double *terms, int64_t d)
{
    for (int64_t width = d; width > 1;) {
        int64_t half = (width + 1) / 2;
        for (int64_t i = 0; i < width - half; i++)
            terms[i] += terms[half + i];
        width = half;
    }
    return d ? terms[0] : 0.0;
}

WIDE static void square(const double *one, const double *other, double *restrict terms, int64_t d)
{
    for (int64_t i = 0; i < d; i++) {
        double difference = one[i] - other[i];
        terms[i] = difference * difference;
    }
}

double exact_sq_distance(const double *one, const double *other, double *terms, int64_t d)
{
    square(one, other, terms, d);
    return fold(terms, d);
}

/* Normalize as dubito.core.distances.unit_rows does: first scale by a power of two, in two steps because one factor may
   overflow. */
WIDE static void make_unit(double *restrict row, double *restrict scratch, int64_t d)
{
    double largest = 0.0, first, second, length;
    int exponent;
    for (int64_t i = 0; i < d; i++)
        largest = fabs(row[i]) > largest ? fabs(row[i]) : largest;
    frexp(largest, &exponent);
    first = ldexp(1.0, -exponent / 2);
    second = ldexp(1.0, -exponent - -exponent / 2);
    for (int64_t i = 0; i < d; i++) {
        row[i] = row[i] * first * second;
        scratch[i] = row[i] * row[i];
    }
    length = sqrt(fold(scratch, d));
    for (int64_t i = 0; i < d; i++)
        row[i] /= length;
}

WIDE static void widen_single(const float *restrict from, double *restrict out, int64_t d)
{
    for (int64_t i = 0; i < d; i++)
        out[i] = from[i];
}

WIDE static void narrow(const double *restrict from, const Space *space, float *restrict out)
{
    const double *center = space->center;
    for (int64_t i = 0; i < space->d; i++)
        out[i] = (float)(center ? (from[i] - center[i]) * space->scale : from[i]);
}

/* If points are shifted in float32, the center is exact in float32. */
WIDE static void shift_single(float *restrict out, const Space *space)
{
    float scale = (float)space->scale;
    for (int64_t i = 0; i < space->d; i++)
        out[i] = (out[i] - (float)space->center[i]) * scale;
}

void read_exactly(const Numbers *from, int64_t row, const Space *space, double *scratch, double *out)
{
    int64_t d = space->d;
    if (from->itemsize == 2) {
        float16_rows((const uint16_t *)from->data, &row, (float *)scratch, 1, d);
        widen_single((const float *)scratch, out, d);
    } else if (from->itemsize == 4) {
        widen_single((const float *)from->data + row * d, out, d);
    } else {
        const double *values = (const double *)from->data + row * d;
        for (int64_t i = 0; i < d; i++)
            out[i] = values[i];
    }
    if (space->is_cosine)
        make_unit(out, scratch, d);
}

/* Center a point and return its squared length, added in an unspecified order. */
WIDE static double center(double *restrict point, const double *restrict middle, double scale, int64_t d)
{
    double lanes[WIDE_LANES] = {0.0}, sum = 0.0;
    int64_t i = 0;
    for (; i + WIDE_LANES <= d; i += WIDE_LANES)
        for (int lane = 0; lane < WIDE_LANES; lane++) {
            point[i + lane] = (point[i + lane] - middle[i + lane]) * scale;
            lanes[lane] += point[i + lane] * point[i + lane];
        }
    for (; i < d; i++) {
        point[i] = (point[i] - middle[i]) * scale;
        sum += point[i] * point[i];
    }
    for (int lane = 0; lane < WIDE_LANES; lane++)
        sum += lanes[lane];
    return sum;
}

double read_centered(const Numbers *from, int64_t row, const Space *space, const double *middle, double *scratch,
                    double *out)
{
    read_exactly(from, row, space, scratch, out);
    return center(out, middle, space->scale, space->d);
}

const Numbers *source(const References *references, int64_t reference, int64_t *row)
{
    int is_pick = reference >= references->n_labeled;
    *row = is_pick ? references->picks[reference - references->n_labeled] : references->labeled_rows[reference];
    return is_pick ? &references->pool : &references->labeled;
}

void read_shifted(const Numbers *from, int64_t row, const Space *space, double *scratch, float *out)
{
    if (!space->in_single || space->is_cosine || from->itemsize == 8) {
        read_exactly(from, row, space, scratch + space->d, scratch);
        narrow(scratch, space, out);
        return;
    }
    if (from->itemsize == 2) {
        float16_rows((const uint16_t *)from->data, &row, out, 1, space->d);
    } else {
        const float *values = (const float *)from->data + row * space->d;
        for (int64_t i = 0; i < space->d; i++)
            out[i] = values[i];
    }
    if (space->center)
        shift_single(out, space);
}

const float *view_shifted(const Numbers *from, int64_t row, const Space *space, double *scratch, float *out)
{
    if (from->itemsize == 4 && space->in_single && !space->is_cosine && !space->center)
        return (const float *)from->data + row * space->d;
    read_shifted(from, row, space, scratch, out);
    return out;
}

WIDE float squared_length(const float *point, int64_t d)
{
    float lanes[POINT_LANES] = {0.0f}, sum = 0.0f;
    int64_t i = 0;
    for (; i + POINT_LANES <= d; i += POINT_LANES)
        for (int lane = 0; lane < POINT_LANES; lane++)
            lanes[lane] += point[i + lane] * point[i + lane];
    for (; i < d; i++)
        sum += point[i] * point[i];
    return sum + total(lanes);
}
