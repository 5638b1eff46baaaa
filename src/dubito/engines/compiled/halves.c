/* Rows of half precision in single: gathered and widened in one pass, on several threads where there is much to do. */

#include "steps.h"

#include <pthread.h>
#include <string.h>

#define MOST_THREADS 64
#define PART ((int64_t)1 << 17)

typedef struct {
    const uint16_t *halves;
    const int64_t *rows;
    float *out;
    int64_t d, start, stop;
} Share;

/* A half's bits moved into place are its value times 2^-112. */
WIDE static void widen(const uint16_t *restrict halves, float *restrict out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = halves[i], value = (bits & 0x7FFFu) << 13, raised;
        float number;
        memcpy(&number, &value, sizeof number);
        number *= 0x1p112f;
        memcpy(&raised, &number, sizeof raised);
        raised |= (bits & 0x8000u) << 16;
        memcpy(out + i, &raised, sizeof raised);
    }
}

static void *widen_share(void *given)
{
    Share *share = given;
    for (int64_t i = share->start; i < share->stop; i++)
        widen(share->halves + (share->rows ? share->rows[i] : i) * share->d, share->out + i * share->d, share->d);
    return NULL;
}

void widen_rows(const uint16_t *halves, const int64_t *rows, float *out, int64_t n, int64_t d, int64_t n_threads)
{
    pthread_t threads[MOST_THREADS];
    Share shares[MOST_THREADS];
    int64_t n_parts = n * d / PART + 1, n_started = 0;
    n_parts = n_parts < n_threads ? n_parts : n_threads;
    n_parts = n_parts < MOST_THREADS ? n_parts : MOST_THREADS;
    for (int64_t part = n_parts - 1; part >= 0; part--) {
        shares[part] = (Share){halves, rows, out, d, n * part / n_parts, n * (part + 1) / n_parts};
        /* The first is this thread's own, and so are those that no thread can be had for. */
        if (part == 0 || pthread_create(threads + n_started, NULL, widen_share, shares + part) != 0)
            widen_share(shares + part);
        else
            n_started++;
    }
    while (n_started > 0)
        pthread_join(threads[--n_started], NULL);
}
