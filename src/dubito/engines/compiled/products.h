/* Products of a few points with many; and work shared among threads. */

#ifndef DUBITO_PRODUCTS_H
#define DUBITO_PRODUCTS_H

#include <stdint.h>

#define TILE 6   /* rows that are multiplied together */
#define PANEL 64 /* columns of a panel */
#define WIDE_PANEL 32
#define MOST_TILES 8 /* that are multiplied with a chunk while it is near */

/* Tiles of rows (tiles · TILE, k) by a panel, a chunk of it after another: a chunk stays next to the processor while all
   tiles are multiplied with it. Those that ``is_idle`` are passed over; NULL for none. */
void multiply_tiles(const float *rows, int64_t n_tiles, int64_t k, const float *panel, float *out, int64_t stride,
                    const uint8_t *is_idle);
void multiply_tiles_wide(const double *rows, int64_t n_tiles, int64_t k, const double *panel, double *out,
                         int64_t stride);

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
