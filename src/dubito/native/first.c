/* Who comes first: the larger bound, and of equal ones the lower row. */

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
    int64_t n, room;
} Candidates;

typedef struct {
    const double *bound;
    int64_t n, n_blocks;
    double *highest; /* (blocks,) */
    Shared shared;
} Blocks;

/* Move what is above a value to the front, or what is not below it; how many that are. */
static int64_t part(double *values, int64_t n, double by, int with_equal)
{
    int64_t above = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = values[i];
        values[i] = values[above];
        values[above] = value;
        above += with_equal ? value >= by : value > by;
    }
    return above;
}

/* The value that would stand at a place if the largest came first. No order of the values makes it slow: which of them
   they are parted by is left to chance. */
static double value_at(double *values, int64_t n, int64_t place)
{
    uint64_t chance = 88172645463325252u;
    while (n > 1) {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        double by = values[chance % (uint64_t)n];
        int64_t above = part(values, n, by, 0);
        if (place < above) {
            n = above;
            continue;
        }
        above += part(values + above, n - above, by, 1);
        /* Nothing is level with what is no number. */
        if (place < above || above == 0)
            return by;
        values += above;
        place -= above;
        n -= above;
    }
    return values[0];
}

static void look_through(void *given, int64_t piece, void *room)
{
    const Blocks *task = given;
    int64_t stop = (piece + 1) * PIECE_BLOCKS < task->n_blocks ? (piece + 1) * PIECE_BLOCKS : task->n_blocks;
    (void)room;
    for (int64_t block = piece * PIECE_BLOCKS; block < stop; block++) {
        int64_t left = task->n - block * BLOCK;
        task->highest[block] = highest(task->bound + block * BLOCK, left < BLOCK ? left : BLOCK);
    }
}

/* There is room for all, unless some bound is no number. */
static void add(Candidates *into, double value, int64_t row)
{
    if (into->n == into->room)
        return;
    into->values[into->n] = value;
    into->rows[into->n++] = row;
}

/* Those above a level, and the first ``size + 1`` of those level with it: no others can be among the first, or come next.
   In as many blocks as are looked for something is level or above. */
static int gather_by_blocks(Candidates *into, const double *bound, int64_t n, int64_t size, int n_threads)
{
    Blocks task = {.bound = bound, .n = n, .n_blocks = (n + BLOCK - 1) / BLOCK};
    int64_t n_level = 0;
    double level = 0.0;
    task.highest = malloc((size_t)task.n_blocks * 2 * sizeof(double));
    task.shared = (Shared){
        .work = look_through, .task = &task, .n_pieces = (task.n_blocks + PIECE_BLOCKS - 1) / PIECE_BLOCKS};
    if (task.highest == NULL || !share(&task.shared, n_threads)) {
        free(task.highest);
        return 0;
    }
    for (int64_t block = 0; block < task.n_blocks; block++)
        task.highest[task.n_blocks + block] = task.highest[block];
    level = value_at(task.highest + task.n_blocks, task.n_blocks, size);
    level = level > 0.0 ? level : 0.0;
    for (int64_t block = 0; block < task.n_blocks; block++)
        if (task.highest[block] >= level)
            for (int64_t row = block * BLOCK; row < n && row < (block + 1) * BLOCK; row++)
                if (bound[row] > level || (bound[row] == level && n_level++ <= size))
                    add(into, bound[row], row);
    free(task.highest);
    return 1;
}

static void gather(Candidates *into, const double *bound, const int64_t *among, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t row = among ? among[i] : i;
        if (bound[row] >= 0.0)
            add(into, bound[row], row);
    }
}

/* The first ``size`` of candidates; how many there are of them. */
static int64_t first_of(const Candidates *given, int64_t size, int64_t *rows, Threshold *next)
{
    int64_t found = 0, above = 0;
    *next = (Threshold){-1.0, -1};
    if (given->n > size) {
        for (int64_t i = 0; i < given->n; i++)
            given->parted[i] = given->values[i];
        next->value = value_at(given->parted, given->n, size);
    }
    for (int64_t i = 0; i < given->n; i++)
        above += given->values[i] > next->value;
    for (int64_t i = 0; i < given->n; i++)
        if (given->values[i] > next->value || (given->values[i] == next->value && above++ < size))
            rows[found++] = given->rows[i];
        else if (given->values[i] == next->value && next->row < 0)
            next->row = given->rows[i];
    return found;
}

int64_t first_in_order(const double *bound, const int64_t *among, int64_t n, int64_t size, int64_t *rows, Threshold *next,
                       int n_threads)
{
    int by_blocks = among == NULL && n / BLOCK > size, is_done = 1;
    int64_t found = -1, room = (by_blocks ? (BLOCK + 1) * (size + 1) : n) + 1;
    Candidates candidates = {.values = malloc((size_t)room * (2 * sizeof(double) + sizeof(int64_t))), .room = room};
    if (candidates.values == NULL)
        return found;
    candidates.parted = candidates.values + room;
    candidates.rows = (int64_t *)(candidates.parted + room);
    if (by_blocks)
        is_done = gather_by_blocks(&candidates, bound, n, size, n_threads);
    else
        gather(&candidates, bound, among, n);
    if (is_done)
        found = first_of(&candidates, size, rows, next);
    free(candidates.values);
    return found;
}
