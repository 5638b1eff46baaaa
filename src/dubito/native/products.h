/* Blocked matrix products. */

#ifndef DUBITO_PRODUCTS_H
#define DUBITO_PRODUCTS_H

#include <stdint.h>

#define TILE 6   /* rows in a tile */
#define PANEL 64 /* columns in a panel */
#define WIDE_PANEL 32
#define MAX_TILES 8 /* multiplied with a chunk while it is in the cache */

/* Multiply tiles of rows (tiles · TILE, k) by a panel, one chunk of the panel at a time, so that it stays in the cache.
   Tiles with ``is_idle`` are skipped; it may be NULL. */
void multiply_tiles(const float *rows, int64_t n_tiles, int64_t k, const float *panel, float *out, int64_t stride,
                    const uint8_t *is_idle);
void multiply_tiles_wide(const double *rows, int64_t n_tiles, int64_t k, const double *panel, double *out,
                         int64_t stride);

/* Multiply one row by a panel and add ``added``. */
void multiply_row(const float *row, int64_t k, const float *panel, const float *added, float *out);

/* The number of tiles of rows (k,) in a piece: few if rows are wide, or if some threads would otherwise have no piece. */
int64_t tiles_for(int64_t n_tiles, int64_t k, int n_threads);

/* Multiply rows (n, k) by panels (panels, k, PANEL), into (n, panels · PANEL). Returns 0 if memory ran out. */
int multiply_rows(const float *rows, const float *panels, float *out, int64_t n, int64_t k, int64_t n_panels,
                  int n_threads);

#endif
