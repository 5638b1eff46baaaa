/* Points as they lie in a matrix, read a row at a time: as the reference sees them, or shifted and in single. */

#ifndef DUBITO_POINTS_H
#define DUBITO_POINTS_H

#include <stdint.h>

/* Rows of half, single or double precision. */
typedef struct {
    const void *data;
    int itemsize;
} Numbers;

/* References: rows of what is labelled first, then picks, which are rows of the pool. */
typedef struct {
    Numbers pool, labelled;
    const int64_t *labelled_rows, *picks;
    int64_t n_labelled, n_all;
} References;

/* Where a reference lies. */
const Numbers *source(const References *references, int64_t reference, int64_t *row);

/* What is done to every row: see dubito.engines.cpu.sketch.Sketch. */
typedef struct {
    int64_t d;
    const double *centre; /* NULL where points stay where they are */
    double scale;
    int is_cosine, in_single; /* ``in_single``: what is no wider is shifted in float32 */
} Space;

/* A row in float64, as dubito.core.distances.read_rows has it; ``room`` has d numbers. */
void read_exactly(const Numbers *from, int64_t row, const Space *space, double *room, double *out);

/* A row in float64, moved by ``-middle`` and multiplied by the space's scale; its squared length. */
double read_centred(const Numbers *from, int64_t row, const Space *space, const double *middle, double *room,
                    double *out);

/* A row shifted, in float32, as Sketch.read has it. */
void read_shifted(const Numbers *from, int64_t row, const Space *space, double *room, float *out);

/* The same, where it lies if nothing is to be done to it, else in ``out``. */
const float *see_shifted(const Numbers *from, int64_t row, const Space *space, double *room, float *out);

/* The sum of squared differences in the order of dubito.core.distances.settle; ``terms`` has room for d. */
double settle(const double *one, const double *other, double *terms, int64_t d);

/* |x|², and |x - y|², added in float32 in no order that anything may rely on. */
float squared_length(const float *point, int64_t d);
float squared_distance(const float *one, const float *other, int64_t d);

#endif
