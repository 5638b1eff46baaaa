/* Codes: the coordinates of points as integers from -127 to 127, in units of a step. Their products cost less than products of
   floats, are exact, and are the same on every processor. */

#ifndef DUBITO_CODES_H
#define DUBITO_CODES_H

#include <stdint.h>

#define MOST_CODES 512       /* maximum for points in panels: sums of products are exact in float32, too */
#define MOST_FINE_CODES 8192 /* maximum for other points: squared distances stay below NO_CODE */
#define NO_CODE (1 << 30)    /* the size of an unused column: larger than any squared distance */
#define LEVELS 4

/* Codes of points, n_codes for each. The columns are divided into levels: ``step`` is the step of the last level, and each
   level has twice the step of the next. The squared distance of the codes of points i and j, divided by step², is
   sizes[2·i] + sizes[2·j + 1] - 2·product. */
typedef struct {
    int64_t n_codes;      /* a multiple of 4, padded with codes 0; 0 if there are no codes */
    int64_t ends[LEVELS]; /* multiples of 4 */
    double step;
    const int8_t *codes;  /* (n, n_codes), readable for TILE more rows */
    const int32_t *sizes; /* (n, 2) the squared length, and the same plus 256 times the sum */
    const float *errors;  /* (n,) upper bound on the distance of a point to its decoded codes */
} Codes;

/* Encode points (n, k) into the arrays of ``to``. The step must have so few digits that a float holds code · step exactly. */
int encode_points(const float *points, int64_t n, int64_t k, const Codes *to, int n_threads);

/* Encode the i-th point. */
void encode_point(const float *point, int64_t k, const Codes *to, int64_t i);

/* Write k codes, or zeros if ``codes`` is NULL, to a column of a panel. Its layout depends on the processor; it takes at most
   the memory of (k, PANEL) floats. */
void pack_codes(const int8_t *codes, int64_t k, int64_t column, float *panel);

/* Multiply the rows (tiles · TILE,) from ``first`` on by a panel, into PANEL columns of ``out``. 128 is added to each code of
   the panel, and the products of a level are weighted four times as much as those of the next level. */
void multiply_codes(const Codes *codes, int64_t first, int64_t n_tiles, const float *panel, int32_t *out, int64_t stride);

/* The product of the codes of ``one``, plus 128 each, with those of ``other``; all codes are of one level. */
int32_t multiply_two_codes(const int8_t *one, const int8_t *other, int64_t k);

/* For each of n rows of products (n, PANEL), set the bits of the columns for which sizes[column] + row_sizes[row] - 2 · product
   is at most the larger of limits[column] and row_limits[row]. */
void compare_codes(const int32_t *products, int64_t n, const int32_t *sizes, const int32_t *limits,
                   const int32_t *row_sizes, const int32_t *row_limits, uint64_t *near);

#endif
