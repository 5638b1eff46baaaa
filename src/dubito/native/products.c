/* Products, compiled for several instruction sets, of which one is chosen at run time. Additions may be fused and in any
   order: the error bounds of dubito.engines.lazy.bounds allow for that. */

#include "products.h"
#include "steps.h"

#include <stddef.h>
#include <string.h>

#define CHUNK 96 /* lines of a panel: 24 kB */

#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast")
#endif

#define NUMBER float
#define COLUMNS PANEL
#if HAS_TARGETS
#define NAME with_avx512
#define VECTOR Sixteen
#define TARGET __attribute__((target("avx512f")))
#define LANES 16
#define VECTORS 4
#include "tile.h"

#define NAME with_fma
#define VECTOR Eight
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define VECTORS 2
#include "tile.h"
#endif

#define NAME with_any
#define VECTOR Four
#define TARGET
#define LANES 4
#define VECTORS 4
#include "tile.h"
#undef NUMBER
#undef COLUMNS

#define NUMBER double
#define COLUMNS WIDE_PANEL
#if HAS_TARGETS
#define NAME wide_with_avx512
#define VECTOR WideEight
#define TARGET __attribute__((target("avx512f")))
#define LANES 8
#define VECTORS 4
#include "tile.h"

#define NAME wide_with_fma
#define VECTOR WideFour
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 4
#define VECTORS 2
#include "tile.h"
#endif

#define NAME wide_with_any
#define VECTOR WideTwo
#define TARGET
#define LANES 2
#define VECTORS 4
#include "tile.h"
#undef NUMBER
#undef COLUMNS

/* Multiply rows (TILE, k), ``step`` apart, by a panel (k, PANEL). Write to, or add to, PANEL columns of ``out``. */
typedef void (*Multiply)(const float *rows, int64_t step, int64_t k, const float *panel, float *out, int64_t stride,
                         int adds);

/* The same in float64, by a panel (k, WIDE_PANEL). */
typedef void (*MultiplyWide)(const double *rows, int64_t step, int64_t k, const double *panel, double *out,
                             int64_t stride, int adds);

enum { ANY, FMA, AVX512 };

static int processor(void)
{
#if HAS_TARGETS
    if (__builtin_cpu_supports("avx512f"))
        return AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return FMA;
#endif
    return ANY;
}

static Multiply best_multiply(void)
{
#if HAS_TARGETS
    const Multiply each[] = {with_any, with_fma, with_avx512};
#else
    const Multiply each[] = {with_any};
#endif
    return each[processor()];
}

static MultiplyWide best_multiply_wide(void)
{
#if HAS_TARGETS
    const MultiplyWide each[] = {wide_with_any, wide_with_fma, wide_with_avx512};
#else
    const MultiplyWide each[] = {wide_with_any};
#endif
    return each[processor()];
}

void multiply_tiles(const float *rows, int64_t n_tiles, int64_t k, const float *panel, float *out, int64_t stride,
                    const uint8_t *is_idle)
{
    Multiply multiply = best_multiply();
    for (int64_t start = 0; start < k; start += CHUNK)
        for (int64_t tile = 0; tile < n_tiles; tile++)
            if (is_idle == NULL || !is_idle[tile])
                multiply(rows + tile * TILE * k + start, k, k - start < CHUNK ? k - start : CHUNK,
                         panel + start * PANEL, out + tile * TILE * stride, stride, start > 0);
}

void multiply_tiles_wide(const double *rows, int64_t n_tiles, int64_t k, const double *panel, double *out,
                         int64_t stride)
{
    MultiplyWide multiply = best_multiply_wide();
    for (int64_t start = 0; start < k; start += CHUNK)
        for (int64_t tile = 0; tile < n_tiles; tile++)
            multiply(rows + tile * TILE * k + start, k, k - start < CHUNK ? k - start : CHUNK,
                     panel + start * WIDE_PANEL, out + tile * TILE * stride, stride, start > 0);
}

WIDE void multiply_row(const float *row, int64_t k, const float *panel, const float *added, float *out)
{
    float sums[PANEL] = {0.0f};
    for (int64_t i = 0; i < k; i++)
        for (int column = 0; column < PANEL; column++)
            sums[column] += row[i] * panel[i * PANEL + column];
    for (int column = 0; column < PANEL; column++)
        out[column] = sums[column] + added[column];
}
