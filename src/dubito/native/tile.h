/* The product of TILE rows and a panel of COLUMNS columns, in VECTORS registers of LANES numbers for each row. products.c
   includes this file once for each number type and instruction set. */

#if HAS_VECTORS
typedef NUMBER VECTOR __attribute__((vector_size(sizeof(NUMBER) * LANES), aligned(sizeof(NUMBER)), may_alias));

TARGET static void NAME(const NUMBER *rows, int64_t step, int64_t k, const NUMBER *panel, NUMBER *out, int64_t stride,
                        int adds)
{
    for (int column = 0; column < COLUMNS; column += LANES * VECTORS) {
        VECTOR sums[TILE][VECTORS];
#pragma GCC unroll 6
        for (int row = 0; row < TILE; row++)
#pragma GCC unroll 4
            for (int vector = 0; vector < VECTORS; vector++)
                sums[row][vector] = adds ? *(const VECTOR *)(out + row * stride + column + vector * LANES) : (VECTOR){0};
        for (int64_t i = 0; i < k; i++) {
            const NUMBER *line = panel + i * COLUMNS + column;
#pragma GCC unroll 6
            for (int row = 0; row < TILE; row++) {
                NUMBER own = rows[row * step + i];
#pragma GCC unroll 4
                for (int vector = 0; vector < VECTORS; vector++)
                    sums[row][vector] += own * *(const VECTOR *)(line + vector * LANES);
            }
        }
#pragma GCC unroll 6
        for (int row = 0; row < TILE; row++)
#pragma GCC unroll 4
            for (int vector = 0; vector < VECTORS; vector++)
                *(VECTOR *)(out + row * stride + column + vector * LANES) = sums[row][vector];
    }
}
#else
static void NAME(const NUMBER *rows, int64_t step, int64_t k, const NUMBER *panel, NUMBER *out, int64_t stride, int adds)
{
    for (int row = 0; row < TILE; row++) {
        NUMBER *sums = out + row * stride;
        for (int column = 0; column < COLUMNS && !adds; column++)
            sums[column] = 0;
        for (int64_t i = 0; i < k; i++) {
            NUMBER own = rows[row * step + i];
            for (int column = 0; column < COLUMNS; column++)
                sums[column] += own * panel[i * COLUMNS + column];
        }
    }
}
#endif

#undef NAME
#undef VECTOR
#undef TARGET
#undef LANES
#undef VECTORS
