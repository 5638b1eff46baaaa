/* Products of a few points with many. */

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

/* One row by a panel, and what is added to each product. */
void multiply_row(const float *row, int64_t k, const float *panel, const float *added, float *out);

/* Tiles of rows (k,) in a piece of work: few, where all threads would not have one else, or where rows are wide. */
int64_t tiles_for(int64_t n_tiles, int64_t k, int n_threads);

/* Rows (n, k) by panels (panels, k, PANEL), into (n, panels · PANEL). Whether there was memory for it. */
int multiply_rows(const float *rows, const float *panels, float *out, int64_t n, int64_t k, int64_t n_panels,
                  int n_threads);

#endif
