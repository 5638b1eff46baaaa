/* Codes of points. On processors without instructions for int8, codes are multiplied as floats, which is exact as well. */

#include "codes.h"
#include "products.h"
#include "steps.h"
#include "thread_pool.h"

#include <math.h>
#include <string.h>

#if HAS_TARGETS
#include <immintrin.h>
#endif

/* Floating-point exceptions are never enabled here. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math", "no-math-errno")
#endif

#define CODE_LANES 16
#define CHUNK 256 /* coordinates, and points, that are encoded together */
#define ERROR_UP (1.0f + 1e-4f) /* exceeds the rounding of a length */
#define FLOOR_LENGTH 1e-15f

/* Encoding */

typedef struct {
    const float *points;
    int64_t n, k;
    const Codes *to;
} Encoding;

/* Encode up to CHUNK coordinates of one level. Adds to the sums of squared codes, of codes, and of squared remainders. */
WIDE static void encode_chunk(const float *restrict point, int64_t k, float step, int8_t *restrict codes, int32_t *squares,
                              int32_t *total, float *restrict lanes)
{
    float inverse = 1.0f / step, left[CHUNK] = {0.0f};
    int32_t square = 0, sum = 0;
    for (int64_t i = 0; i < k; i++) {
        float value = point[i] * inverse;
        value = value < 127.0f ? value : 127.0f;
        value = value > -127.0f ? value : -127.0f;
        value = (value + 12582912.0f) - 12582912.0f; /* rounds */
        left[i] = point[i] - value * step;
        codes[i] = (int8_t)(int32_t)value;
    }
    for (int64_t i = 0; i < k; i++) {
        square += (int16_t)codes[i] * (int16_t)codes[i];
        sum += codes[i];
    }
    for (int64_t i = 0; i < k; i += CODE_LANES)
        for (int lane = 0; lane < CODE_LANES; lane++)
            lanes[lane] += left[i + lane] * left[i + lane];
    *squares += square;
    *total += sum;
}

void encode_point(const float *point, int64_t k, const Codes *to, int64_t i)
{
    float lanes[CODE_LANES] = {0.0f}, sum = 0.0f;
    int32_t squares = 0, total = 0;
    int64_t start = 0;
    for (int level = 0; level < LEVELS; level++) {
        int64_t end = to->ends[level] < k ? to->ends[level] : k;
        squares *= 4;
        total *= 4;
        for (; start < end; start += CHUNK)
            encode_chunk(point + start, end - start < CHUNK ? end - start : CHUNK, (float)ldexp(to->step, LEVELS - 1 - level),
                         (int8_t *)to->codes + i * to->n_codes + start, &squares, &total, lanes);
        start = end;
    }
    for (int lane = 0; lane < CODE_LANES; lane++)
        sum += lanes[lane];
    ((int32_t *)to->sizes)[2 * i] = squares;
    ((int32_t *)to->sizes)[2 * i + 1] = squares + 256 * total;
    ((float *)to->errors)[i] = sqrtf(sum) * ERROR_UP + FLOOR_LENGTH;
}

static void encode_piece(void *data, int64_t piece, void *scratch)
{
    Encoding *task = data;
    const Codes *to = task->to;
    int64_t first = piece * CHUNK, stop = first + CHUNK < task->n ? first + CHUNK : task->n;
    (void)scratch;
    for (int64_t i = first; i < stop; i++)
        encode_point(task->points + i * task->k, task->k, to, i);
}

int encode_points(const float *points, int64_t n, int64_t k, const Codes *to, int n_threads)
{
    Encoding task = {points, n, k, to};
    ParallelFor loop = {.work = encode_piece, .task = &task, .n_pieces = (n + CHUNK - 1) / CHUNK};
    return parallel_for(&loop, n_threads);
}

/* Products by instructions for int8. A panel holds the first four codes of each column, then the next four, each plus 128. */

#if HAS_TARGETS
#define VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

static int has_vnni(void)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni");
}

VNNI static void multiply_vnni(const Codes *codes, int64_t first, const float *panel, int32_t *out, int64_t stride)
{
    int64_t k = codes->n_codes, i = 0;
    const int8_t *rows = codes->codes + first * k;
    __m512i sums[TILE][4];
#pragma GCC unroll 6
    for (int row = 0; row < TILE; row++)
#pragma GCC unroll 4
        for (int part = 0; part < 4; part++)
            sums[row][part] = _mm512_setzero_si512();
    for (int level = 0; level < LEVELS; level++) {
#pragma GCC unroll 6
        for (int row = 0; i > 0 && row < TILE; row++)
#pragma GCC unroll 4
            for (int part = 0; part < 4; part++)
                sums[row][part] = _mm512_slli_epi32(sums[row][part], 2);
        for (; i < codes->ends[level]; i += 4) {
            const float *line = panel + i / 4 * PANEL;
#pragma GCC unroll 6
            for (int row = 0; row < TILE; row++) {
                int32_t four;
                memcpy(&four, rows + row * k + i, sizeof four);
                __m512i own = _mm512_set1_epi32(four);
#pragma GCC unroll 4
                for (int part = 0; part < 4; part++)
                    sums[row][part] = _mm512_dpbusd_epi32(sums[row][part], _mm512_loadu_si512(line + 16 * part), own);
            }
        }
    }
#pragma GCC unroll 6
    for (int row = 0; row < TILE; row++)
#pragma GCC unroll 4
        for (int part = 0; part < 4; part++)
            _mm512_storeu_si512(out + row * stride + 16 * part, sums[row][part]);
}

VNNI static int32_t multiply_two_vnni(const int8_t *one, const int8_t *other, int64_t k)
{
    __m512i sums = _mm512_setzero_si512(), half = _mm512_set1_epi8((char)-128);
    for (int64_t i = 0; i < k; i += 64) {
        __mmask64 used = k - i < 64 ? ((__mmask64)1 << (k - i)) - 1 : ~(__mmask64)0;
        __m512i own = _mm512_xor_si512(_mm512_maskz_loadu_epi8(used, one + i), half);
        sums = _mm512_dpbusd_epi32(sums, own, _mm512_maskz_loadu_epi8(used, other + i));
    }
    return _mm512_reduce_add_epi32(sums);
}

__attribute__((target("avx512f"))) static void compare_avx512(const int32_t *products, int64_t n, const int32_t *sizes,
                                                              const int32_t *limits, const int32_t *row_sizes,
                                                              const int32_t *row_limits, uint64_t *near)
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

/* Products on any processor */

WIDE static void widen(const int8_t *restrict codes, int64_t n, float *restrict out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)codes[i];
}

/* out = 4 · out + products */
WIDE static void add_level(const float *restrict products, int32_t *restrict out)
{
    for (int column = 0; column < PANEL; column++)
        out[column] = 4 * out[column] + (int32_t)products[column];
}

static void multiply_any(const Codes *codes, int64_t first, const float *panel, int32_t *out, int64_t stride)
{
    float wide[TILE * MOST_CODES], products[TILE * PANEL];
    for (int row = 0; row < TILE; row++)
        memset(out + row * stride, 0, PANEL * sizeof(int32_t));
    for (int64_t level = 0, start = 0; level < LEVELS; start = codes->ends[level++]) {
        int64_t k = codes->ends[level] - start;
        for (int row = 0; row < TILE; row++)
            widen(codes->codes + (first + row) * codes->n_codes + start, k, wide + row * k);
        memset(products, 0, sizeof products);
        multiply_tiles(wide, 1, k, panel + start * PANEL, products, PANEL, NULL);
        for (int row = 0; row < TILE; row++)
            add_level(products + row * PANEL, out + row * stride);
    }
}

WIDE static int32_t multiply_two_any(const int8_t *one, const int8_t *other, int64_t k)
{
    int32_t product = 0, sum = 0;
    for (int64_t i = 0; i < k; i++) {
        product += (int16_t)one[i] * (int16_t)other[i];
        sum += other[i];
    }
    return product + 128 * sum;
}

WIDE static void compare_any(const int32_t *products, int64_t n, const int32_t *sizes, const int32_t *limits,
                             const int32_t *row_sizes, const int32_t *row_limits, uint64_t *near)
{
    for (int64_t row = 0; row < n; row++) {
        int32_t is_near[PANEL];
        uint8_t flags[PANEL];
        for (int column = 0; column < PANEL; column++) {
            int32_t squared = row_sizes[row] + sizes[column] - 2 * products[row * PANEL + column];
            int32_t most = limits[column] > row_limits[row] ? limits[column] : row_limits[row];
            is_near[column] = squared <= most;
        }
        for (int column = 0; column < PANEL; column++)
            flags[column] = (uint8_t)is_near[column];
        near[row] = 0;
        for (int group = 0; group < PANEL; group += 8) {
            uint64_t some;
            memcpy(&some, flags + group, sizeof some);
            for (int column = group; some && column < group + 8; column++)
                near[row] |= (uint64_t)flags[column] << column;
        }
    }
}

/* The functions of the header choose the implementation at run time. */

void pack_codes(const int8_t *codes, int64_t k, int64_t column, float *panel)
{
#if HAS_TARGETS
    for (int64_t i = 0; has_vnni() && i < k; i += 4) {
        uint32_t four = 0;
        if (codes)
            memcpy(&four, codes + i, sizeof four);
        four ^= 0x80808080u;
        memcpy(panel + i / 4 * PANEL + column, &four, sizeof four);
    }
    if (has_vnni())
        return;
#endif
    for (int64_t i = 0; i < k; i++)
        panel[i * PANEL + column] = (float)(codes ? codes[i] + 128 : 128);
}

void multiply_codes(const Codes *codes, int64_t first, int64_t n_tiles, const float *panel, int32_t *out, int64_t stride)
{
    void (*multiply)(const Codes *, int64_t, const float *, int32_t *, int64_t) = multiply_any;
#if HAS_TARGETS
    if (has_vnni())
        multiply = multiply_vnni;
#endif
    for (int64_t tile = 0; tile < n_tiles; tile++)
        multiply(codes, first + tile * TILE, panel, out + tile * TILE * stride, stride);
}

int32_t multiply_two_codes(const int8_t *one, const int8_t *other, int64_t k)
{
#if HAS_TARGETS
    if (has_vnni())
        return multiply_two_vnni(one, other, k);
#endif
    return multiply_two_any(one, other, k);
}

void compare_codes(const int32_t *products, int64_t n, const int32_t *sizes, const int32_t *limits,
                   const int32_t *row_sizes, const int32_t *row_limits, uint64_t *near)
{
#if HAS_TARGETS
    if (__builtin_cpu_supports("avx512f")) {
        compare_avx512(products, n, sizes, limits, row_sizes, row_limits, near);
        return;
    }
#endif
    compare_any(products, n, sizes, limits, row_sizes, row_limits, near);
}
