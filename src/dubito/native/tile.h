/* A product of TILE rows with a panel of COLUMNS, for registers of LANES numbers, VECTORS of them to a row: included by
   products.c, once for each kind of number and processor, with those defined, and NUMBER, NAME, VECTOR and TARGET. */

typedef NUMBER VECTOR __attribute__((vector_size(sizeof(NUMBER) * LANES), aligned(sizeof(NUMBER)), may_alias));

TARGET static void NAME(const NUMBER *rows, int64_t step, int64_t k, const NUMBER *panel, NUMBER *out, int64_t stride,
                        int adds)
{
    for (int column = 0; column < COLUMNS; column += LANES * VECTORS) {
        VECTOR sums[TILE][VECTORS];
#pragma GCC unroll 6
        for (int row = 0; row < TILE; row++)
#pragma GCC unroll 4
            for (int place = 0; place < VECTORS; place++)
                sums[row][place] = adds ? *(const VECTOR *)(out + row * stride + column + place * LANES) : (VECTOR){0};
        for (int64_t i = 0; i < k; i++) {
            const NUMBER *line = panel + i * COLUMNS + column;
#pragma GCC unroll 6
            for (int row = 0; row < TILE; row++) {
                NUMBER own = rows[row * step + i];
#pragma GCC unroll 4
                for (int place = 0; place < VECTORS; place++)
                    sums[row][place] += own * *(const VECTOR *)(line + place * LANES);
            }
        }
#pragma GCC unroll 6
        for (int row = 0; row < TILE; row++)
#pragma GCC unroll 4
            for (int place = 0; place < VECTORS; place++)
                *(VECTOR *)(out + row * stride + column + place * LANES) = sums[row][place];
    }
}

#undef NAME
#undef VECTOR
#undef TARGET
#undef LANES
#undef VECTORS
