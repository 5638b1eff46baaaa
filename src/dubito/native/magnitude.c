/* The largest magnitude, by integer comparison: the bits of a float without the sign, read as an integer, grow with its
   magnitude, and those of NaN are larger than those of any number. */

#include "magnitude.h"
#include "thread_pool.h"
#include "steps.h"

#include <math.h>
#include <string.h>

#define PIECE ((int64_t)1 << 17)
#define FLOAT16_INFINITY 0x7C00

typedef struct {
    Numbers numbers;
    int64_t n;
    int64_t most; /* bits */
    ParallelFor loop;
} Task;

WIDE static int64_t max_of_float16(const uint16_t *bits, int64_t n)
{
    uint16_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t own = bits[i] & 0x7FFF;
        most = own > most ? own : most;
    }
    return most;
}

WIDE static int64_t max_of_float32(const int32_t *bits, int64_t n)
{
    int32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t own = bits[i] & INT32_MAX;
        most = own > most ? own : most;
    }
    return most;
}

WIDE static int64_t max_of_float64(const int64_t *bits, int64_t n)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t own = bits[i] & INT64_MAX;
        most = own > most ? own : most;
    }
    return most;
}

static int64_t max_of(const Numbers *numbers, int64_t first, int64_t n)
{
    if (numbers->itemsize == 2)
        return max_of_float16((const uint16_t *)numbers->data + first, n);
    if (numbers->itemsize == 4)
        return max_of_float32((const int32_t *)numbers->data + first, n);
    return max_of_float64((const int64_t *)numbers->data + first, n);
}

static void measure_piece(void *data, int64_t piece, void *scratch)
{
    Task *task = data;
    int64_t first = piece * PIECE, left = task->n - first;
    int64_t own = max_of(&task->numbers, first, left < PIECE ? left : PIECE);
    int64_t most = atomic_read(&task->most);
    (void)scratch;
    while (own > most && !atomic_replace(&task->most, &most, own))
        ;
}

static double as_number(uint64_t bits, int itemsize)
{
    double number;
    float single;
    if (itemsize == 8) {
        memcpy(&number, &bits, sizeof number);
        return number;
    }
    if (itemsize == 2) {
        uint16_t half = (uint16_t)bits;
        if (half >= FLOAT16_INFINITY)
            return half > FLOAT16_INFINITY ? NAN : INFINITY;
        float16_rows(&half, NULL, &single, 1, 1);
    } else {
        uint32_t word = (uint32_t)bits;
        memcpy(&single, &word, sizeof single);
    }
    return single;
}

double magnitude(const Numbers *numbers, int64_t n, int n_threads)
{
    Task task = {.numbers = *numbers, .n = n};
    task.loop = (ParallelFor){.work = measure_piece, .task = &task, .n_pieces = (n + PIECE - 1) / PIECE};
    return parallel_for(&task.loop, n_threads) ? as_number((uint64_t)task.most, numbers->itemsize) : -1.0;
}
