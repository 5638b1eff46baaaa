/* Points as whole numbers from -127 to 127, times steps: products of these cost less than those of floats, and are exact.
   They are the same on every processor. */

#ifndef DUBITO_CODES_H
#define DUBITO_CODES_H

#include <stdint.h>

#define MOST_CODES 512       /* of a point in a panel: sums of their products are exact in float32, too */
#define MOST_FINE_CODES 8192 /* of a point outside: squared distances stay below NO_CODE */
#define NO_CODE (1 << 30)    /* the size of an unused column: more than any squared distance */
#define LEVELS 4

/* Codes of points, in rows of n_codes. The last level has the step, each before it twice the step of the next. The squared
   distance of two points over step² is sizes[2·i] + sizes[2·j + 1] - 2·product. */
typedef struct {
    int64_t n_codes;      /* a multiple of 4, the last ones 0; 0: there are none */
    int64_t ends[LEVELS]; /* multiples of 4 */
    double step;
    const int8_t *codes;  /* (n, n_codes), readable for TILE rows more */
    const int32_t *sizes; /* (n, 2) the squared length, and the same plus 256 times the sum */
    const float *errors;  /* (n,) how far a point is from its codes times the steps, at most */
} Codes;

/* Encode points (n, k). The arrays of ``to`` are written; steps have so few digits that code · step is a float. */
int encode_points(const float *points, int64_t n, int64_t k, const Codes *to, int n_threads);

/* Encode the i-th point. */
void encode_point(const float *point, int64_t k, const Codes *to, int64_t i);

/* Put k codes into a column of a panel (k, PANEL) of floats, or of another layout that needs no more memory. NULL: 0s. */
void pack_codes(const int8_t *codes, int64_t k, int64_t column, float *panel);

/* Multiply rows (tiles · TILE,) from ``first`` on by a panel, into PANEL columns of ``out``. Products are those with
   code + 128 in the panel; those of a level count four times as much as those of the next. */
void multiply_codes(const Codes *codes, int64_t first, int64_t n_tiles, const float *panel, int32_t *out, int64_t stride);

/* The product of one's codes + 128 with the other's, all of one level. */
int32_t multiply_two_codes(const int8_t *one, const int8_t *other, int64_t k);

/* For each of n rows (n, PANEL) of products, a bit for each column with sizes[column] + size - 2 · product at most the
   larger of both limits. */
void compare_codes(const int32_t *products, int64_t n, const int32_t *sizes, const int32_t *limits,
                   const int32_t *row_sizes, const int32_t *row_limits, uint64_t *near);

#endif
