/* Differences between compilers: GCC, Clang (also on Windows) and MSVC. */

#ifndef DUBITO_PORTABLE_H
#define DUBITO_PORTABLE_H

#include <stdint.h>

/* One build runs on every CPU: where the loader supports it, loops are also compiled for AVX2 and AVX-512. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

/* Functions that must be inlined, so that they are compiled for the same instruction set as the loop that calls them. */
#if defined(_MSC_VER)
#define INLINE static __forceinline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

/* With other compilers, or if DUBITO_PLAIN_C is defined, the code uses loops over arrays instead of vector types, and only the
   default instruction set. */
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

/* The number of bits set, the position of the lowest one, and relaxed atomic operations. */
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>

static inline int count_bits(uint64_t bits)
{
    int count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}

static inline int first_bit(uint64_t bits) /* of bits that are not all 0 */
{
    unsigned long found;
    _BitScanForward64(&found, bits);
    return (int)found;
}

static inline int64_t atomic_read(const int64_t *from)
{
    return *(const volatile int64_t *)from;
}

static inline int64_t atomic_add(int64_t *to, int64_t value) /* returns the value before */
{
    return _InterlockedExchangeAdd64((volatile __int64 *)to, value);
}

static inline int atomic_replace(int64_t *at, int64_t *expected, int64_t value)
{
    int64_t before = _InterlockedCompareExchange64((volatile __int64 *)at, value, *expected);
    int is_replaced = before == *expected;
    *expected = before;
    return is_replaced;
}
#else
static inline int count_bits(uint64_t bits)
{
    return __builtin_popcountll(bits);
}

static inline int first_bit(uint64_t bits) /* of bits that are not all 0 */
{
    return __builtin_ctzll(bits);
}

static inline int64_t atomic_read(const int64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

static inline int64_t atomic_add(int64_t *to, int64_t value) /* returns the value before */
{
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

static inline int atomic_replace(int64_t *at, int64_t *expected, int64_t value)
{
    return __atomic_compare_exchange_n(at, expected, value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
#endif

#endif
