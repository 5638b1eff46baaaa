/* What differs between compilers: GCC, Clang (also on Windows) and MSVC. */

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

/* Relaxed atomic operations. */
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>

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
