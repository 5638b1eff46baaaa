/* Products of a few points with many; and work shared among threads. */

#ifndef DUBITO_PRODUCTS_H
#define DUBITO_PRODUCTS_H

#include <stdint.h>

#define TILE 6   /* rows that are multiplied together */
#define PANEL 64 /* columns of a panel */
#define WIDE_PANEL 32

/* Rows (TILE, k) by a panel (k, PANEL), into the first PANEL places of each row of ``out``. */
typedef void (*Multiply)(const float *rows, int64_t k, const float *panel, float *out, int64_t stride);

/* The same in float64, by a panel (k, WIDE_PANEL). */
typedef void (*MultiplyWide)(const double *rows, int64_t k, const double *panel, double *out, int64_t stride);

/* The quickest that this processor can. */
Multiply best_multiply(void);
MultiplyWide best_multiply_wide(void);

/* Pieces of work, taken one at a time by threads until none is left; piece numbers go up from 0. */
typedef struct {
    void (*work)(void *task, int64_t piece, void *room);
    void *task;
    int64_t n_pieces, next;
    int64_t room_bytes; /* of each thread's own room */
    int is_ended, lacks_memory;
    void *lock;
} Shared;

/* No further piece is begun. */
void end_early(Shared *shared, int lacks_memory);

/* Whether there was memory for it. */
int share(Shared *shared, int n_threads);

/* Rows (n, k) by a panel (k, PANEL), into (n, PANEL). */
int sketch_rows(const float *rows, const float *panel, float *out, int64_t n, int64_t k, int n_threads);

/* Squared distances (n, n) among points (n, d) in float64, from products and squared lengths (n,). */
int distances_among(const double *points, const double *sizes, double *squared, int64_t n, int64_t d, int n_threads);

#endif
