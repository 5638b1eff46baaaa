/* The first candidates by bound, largest first, ties to the lowest row. */

#include "thread_pool.h"
#include "extremes.h"
#include "steps.h"

#include <stdlib.h>

#define BLOCK 64
#define PIECE_BLOCKS 256

/* Candidates in ascending order of row. */
typedef struct {
    double *values, *parted;
    int64_t *rows;
    int64_t n, capacity;
} Candidates;

typedef struct {
    const double *bound;
    int64_t n, n_blocks;
    double *highest; /* (blocks,) */
    ParallelFor loop;
} Blocks;

/* Move the values above ``pivot`` (or, with_equal, at least ``pivot``) to the front; returns their number. */
static int64_t partition(double *values, int64_t n, double pivot, int with_equal)
{
    int64_t above = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = values[i];
        values[i] = values[above];
        values[above] = value;
        above += with_equal ? value >= pivot : value > pivot;
    }
    return above;
}

/* The value at a rank in descending order (quickselect). Random pivots avoid slow input orders. */
static double nth_largest(double *values, int64_t n, int64_t rank)
{
    uint64_t random = 88172645463325252u;
    while (n > 1) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        double pivot = values[random % (uint64_t)n];
        int64_t above = partition(values, n, pivot, 0);
        if (rank < above) {
            n = above;
            continue;
        }
        above += partition(values + above, n - above, pivot, 1);
        /* A pivot of NaN equals no value, so no progress is possible. */
        if (rank < above || above == 0)
            return pivot;
        values += above;
        rank -= above;
        n -= above;
    }
    return values[0];
}

static void block_maxima(void *data, int64_t piece, void *scratch)
{
    const Blocks *task = data;
    int64_t stop = (piece + 1) * PIECE_BLOCKS < task->n_blocks ? (piece + 1) * PIECE_BLOCKS : task->n_blocks;
    (void)scratch;
    for (int64_t block = piece * PIECE_BLOCKS; block < stop; block++) {
        int64_t left = task->n - block * BLOCK;
        task->highest[block] = highest(task->bound + block * BLOCK, left < BLOCK ? left : BLOCK);
    }
}

/* The capacity is sufficient unless a bound is NaN. */
static void add(Candidates *into, double value, int64_t row)
{
    if (into->n == into->capacity)
        return;
    into->values[into->n] = value;
    into->rows[into->n++] = row;
}

/* Gather the candidates above a level, and the first ``size + 1`` equal to it: no others can be among the first ``size`` or
   come next. The level is chosen so that at least ``size + 1`` blocks hold a candidate at or above it. */
static int gather_by_blocks(Candidates *into, const double *bound, int64_t n, int64_t size, int n_threads)
{
    Blocks task = {.bound = bound, .n = n, .n_blocks = (n + BLOCK - 1) / BLOCK};
    int64_t n_level = 0;
    double level = 0.0;
    task.highest = malloc((size_t)task.n_blocks * 2 * sizeof(double));
    task.loop = (ParallelFor){
        .work = block_maxima, .task = &task, .n_pieces = (task.n_blocks + PIECE_BLOCKS - 1) / PIECE_BLOCKS};
    if (task.highest == NULL || !parallel_for(&task.loop, n_threads)) {
        free(task.highest);
        return 0;
    }
    for (int64_t block = 0; block < task.n_blocks; block++)
        task.highest[task.n_blocks + block] = task.highest[block];
    level = nth_largest(task.highest + task.n_blocks, task.n_blocks, size);
    level = level > 0.0 ? level : 0.0;
    for (int64_t block = 0; block < task.n_blocks; block++)
        if (task.highest[block] >= level)
            for (int64_t row = block * BLOCK; row < n && row < (block + 1) * BLOCK; row++)
                if (bound[row] > level || (bound[row] == level && n_level++ <= size))
                    add(into, bound[row], row);
    free(task.highest);
    return 1;
}

static void gather(Candidates *into, const double *bound, const int64_t *subset, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t row = subset ? subset[i] : i;
        if (bound[row] >= 0.0)
            add(into, bound[row], row);
    }
}

/* Write the first ``size`` candidates to ``rows``; returns the number written. */
static int64_t first_of(const Candidates *data, int64_t size, int64_t *rows, Threshold *next)
{
    int64_t found = 0, above = 0;
    *next = (Threshold){-1.0, -1};
    if (data->n > size) {
        for (int64_t i = 0; i < data->n; i++)
            data->parted[i] = data->values[i];
        next->value = nth_largest(data->parted, data->n, size);
    }
    for (int64_t i = 0; i < data->n; i++)
        above += data->values[i] > next->value;
    for (int64_t i = 0; i < data->n; i++)
        if (data->values[i] > next->value || (data->values[i] == next->value && above++ < size))
            rows[found++] = data->rows[i];
        else if (data->values[i] == next->value && next->row < 0)
            next->row = data->rows[i];
    return found;
}

int64_t first_in_order(const double *bound, const int64_t *subset, int64_t n, int64_t size, int64_t *rows, Threshold *next,
                       int n_threads)
{
    int by_blocks = subset == NULL && n / BLOCK > size, is_done = 1;
    int64_t found = -1, capacity = (by_blocks ? (BLOCK + 1) * (size + 1) : n) + 1;
    Candidates candidates = {.values = malloc((size_t)capacity * (2 * sizeof(double) + sizeof(int64_t))), .capacity = capacity};
    if (candidates.values == NULL)
        return found;
    candidates.parted = candidates.values + capacity;
    candidates.rows = (int64_t *)(candidates.parted + capacity);
    if (by_blocks)
        is_done = gather_by_blocks(&candidates, bound, n, size, n_threads);
    else
        gather(&candidates, bound, subset, n);
    if (is_done)
        found = first_of(&candidates, size, rows, next);
    free(candidates.values);
    return found;
}
