/* Products, compiled for several instruction sets and chosen at run time. Additions may be fused and in any order: the
   error bounds of dubito.engines.lazy.bounds allow for that. */

#include "products.h"
#include "steps.h"

#include <stddef.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CHUNK 96 /* lines of a panel: 24 kB */

#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=fast")
#endif

/* Other compilers, and DUBITO_PLAIN_C, get loops over arrays instead of vectors, and no further instruction sets. */
#if defined(__GNUC__) && !defined(DUBITO_PLAIN_C)
#define HAS_VECTORS 1
#else
#define HAS_VECTORS 0
#endif

/* Clang on Windows may come without the library that __builtin_cpu_supports needs. */
#if HAS_VECTORS && defined(__x86_64__) && !(defined(_WIN32) && defined(__clang__))
#define HAS_TARGETS 1
#else
#define HAS_TARGETS 0
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

/* Codes */

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) static void multiply_codes_vnni(const int8_t *rows, int64_t k,
                                                                              const uint8_t *panel, int32_t *out)
{
    __m512i sums[TILE][4];
#pragma GCC unroll 6
    for (int row = 0; row < TILE; row++)
#pragma GCC unroll 4
        for (int part = 0; part < 4; part++)
            sums[row][part] = _mm512_setzero_si512();
    for (int64_t i = 0; i < k; i += 4) {
        const uint8_t *line = panel + i * PANEL;
#pragma GCC unroll 6
        for (int row = 0; row < TILE; row++) {
            int32_t four;
            memcpy(&four, rows + row * k + i, sizeof four);
            __m512i own = _mm512_set1_epi32(four);
#pragma GCC unroll 4
            for (int part = 0; part < 4; part++)
                sums[row][part] = _mm512_dpbusd_epi32(sums[row][part], _mm512_loadu_si512(line + 64 * part), own);
        }
    }
#pragma GCC unroll 6
    for (int row = 0; row < TILE; row++)
#pragma GCC unroll 4
        for (int part = 0; part < 4; part++)
            _mm512_storeu_si512(out + row * PANEL + 16 * part, sums[row][part]);
}

__attribute__((target("avx512f"))) static void compare_codes_avx512(const int32_t *products, int64_t n,
                                                                   const int32_t *sizes, const int32_t *limits,
                                                                   const int32_t *row_sizes, const int32_t *row_limits,
                                                                   uint64_t *near)
{
    for (int64_t row = 0; row < n; row++) {
        __m512i size = _mm512_set1_epi32(row_sizes[row]), limit = _mm512_set1_epi32(row_limits[row]);
        near[row] = 0;
#pragma GCC unroll 4
        for (int part = 0; part < 4; part++) {
            __m512i product = _mm512_loadu_si512(products + row * PANEL + 16 * part);
            __m512i squared = _mm512_sub_epi32(_mm512_add_epi32(size, _mm512_loadu_si512(sizes + 16 * part)),
                                               _mm512_add_epi32(product, product));
            __m512i most = _mm512_max_epi32(limit, _mm512_loadu_si512(limits + 16 * part));
            near[row] |= (uint64_t)_mm512_cmple_epi32_mask(squared, most) << 16 * part;
        }
    }
}
#endif

static void multiply_codes_any(const int8_t *rows, int64_t k, const uint8_t *panel, int32_t *out)
{
    for (int row = 0; row < TILE; row++) {
        int32_t sums[PANEL] = {0};
        for (int64_t i = 0; i < k; i++)
            for (int column = 0; column < PANEL; column++)
                sums[column] += (int32_t)rows[row * k + i] * panel[i / 4 * 4 * PANEL + column * 4 + i % 4];
        memcpy(out + row * PANEL, sums, sizeof sums);
    }
}

int has_fast_codes(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni");
#else
    return 0;
#endif
}

void multiply_codes(const int8_t *rows, int64_t n_tiles, int64_t k, const uint8_t *panel, int32_t *out)
{
    void (*multiply)(const int8_t *, int64_t, const uint8_t *, int32_t *) = multiply_codes_any;
#if defined(__x86_64__)
    if (has_fast_codes())
        multiply = multiply_codes_vnni;
#endif
    for (int64_t tile = 0; tile < n_tiles; tile++)
        multiply(rows + tile * TILE * k, k, panel, out + tile * TILE * PANEL);
}

void compare_codes(const int32_t *products, int64_t n, const int32_t *sizes, const int32_t *limits,
                   const int32_t *row_sizes, const int32_t *row_limits, uint64_t *near)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        compare_codes_avx512(products, n, sizes, limits, row_sizes, row_limits, near);
        return;
    }
#endif
    for (int64_t row = 0; row < n; row++) {
        near[row] = 0;
        for (int column = 0; column < PANEL; column++) {
            int32_t squared = row_sizes[row] + sizes[column] - 2 * products[row * PANEL + column];
            int32_t most = limits[column] > row_limits[row] ? limits[column] : row_limits[row];
            near[row] |= (uint64_t)(squared <= most) << column;
        }
    }
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
