/* Gains of candidates, and greedy picks in the order of gains. Exact gains are summed in the order of the rows, as
   dubito.core.coverage_reference does; all other sums are upper bounds. */

#include "coverage.h"
#include "steps.h"

#include <stdlib.h>
#include <string.h>

enum { HEAP_SIZE, N_PICKS, REST };

static int by_key(const void *one, const void *other)
{
    int64_t left, right;
    memcpy(&left, one, sizeof left);
    memcpy(&right, other, sizeof right);
    return (left > right) - (left < right);
}

/* Sort points by their row in the pool. ``scratch`` (n,) holds the sort keys, which are as large as doubles. */
static void sort_points(const int64_t *numbers, int32_t *points, int64_t n, double *scratch)
{
    int64_t key;
    for (int64_t i = 0; i < n; i++) {
        key = numbers[points[i]] << 32 | points[i];
        memcpy(scratch + i, &key, sizeof key);
    }
    qsort(scratch, (size_t)n, sizeof key, by_key);
    for (int64_t i = 0; i < n; i++) {
        memcpy(&key, scratch + i, sizeof key);
        points[i] = (int32_t)(key & INT32_MAX);
    }
}

/* The exact gain of a candidate whose pairs are exact. */
static double exact_gain(const Gains *run, int64_t candidate)
{
    double sum = 0.0;
    for (int64_t i = run->starts[candidate]; i < run->stops[candidate]; i++) {
        const Covered *row = run->covered + run->rows[i];
        double term = run->exact[i] - row->cover;
        if (term > 0.0)
            sum += term * row->weight;
    }
    return sum;
}

/* An upper bound on a candidate's gain. Drops the pairs that can no longer add anything. */
static double upper_gain(const Gains *run, int64_t candidate)
{
    int64_t start = run->starts[candidate], kept = start;
    double sum = 0.0;
    for (int64_t i = start; i < run->stops[candidate]; i++) {
        int32_t row = run->rows[i];
        double term = run->upper[i] - run->covered[row].cover;
        run->rows[kept] = row;
        run->upper[kept] = run->upper[i];
        kept += term > 0.0; /* without a branch: the processor could not predict it */
        sum += (term > 0.0 ? term : 0.0) * run->covered[row].weight;
    }
    run->stops[candidate] = kept;
    return sum * run->constants.round_up + run->constants.smallest * (double)(kept - start);
}

static void update(Gains *run, int64_t candidate)
{
    double gain = run->pair_state[candidate] == EXACT ? exact_gain(run, candidate) : upper_gain(run, candidate);
    if (run->costs)
        gain /= run->costs[candidate];
    if (gain < run->bound[candidate])
        run->bound[candidate] = gain;
    run->stamp[candidate] = run->state[N_PICKS];
}

/* Compute the exact kernels of a candidate's pairs, in the order of the rows. ``scratch`` holds 4·d numbers. */
static void make_exact(Gains *run, int64_t candidate, double *scratch)
{
    int64_t start = run->starts[candidate], n, d = run->space.d;
    double *own = scratch, *other = own + d, *wide = other + d;
    upper_gain(run, candidate); /* drops pairs */
    n = run->stops[candidate] - start;
    sort_points(run->numbers, run->rows + start, n, run->exact + start);
    read_exactly(&run->pool, run->sources[run->candidates[candidate]], &run->space, wide, own);
    for (int64_t i = start; i < start + n; i++) {
        double near;
        read_exactly(&run->pool, run->sources[run->rows[i]], &run->space, wide, other);
        near = 1.0 - exact_sq_distance(other, own, wide, d) / run->constants.reach;
        near = near > 0.0 ? near : 0.0;
        run->exact[i] = near * near;
    }
    run->pair_state[candidate] = EXACT;
}

/* The heap: largest bound first, ties to the lowest number. */

static int comes_before(const Gains *run, int64_t one, int64_t other)
{
    double left = run->bound[one], right = run->bound[other];
    return left > right || (left == right && one < other);
}

static void sift_down(Gains *run, int64_t at)
{
    int64_t *heap = run->heap, n = run->state[HEAP_SIZE], own = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && comes_before(run, heap[child + 1], heap[child]);
        if (!comes_before(run, heap[child], own))
            break;
        heap[at] = heap[child];
    }
    heap[at] = own;
}

static void remove_first(Gains *run)
{
    run->heap[0] = run->heap[--run->state[HEAP_SIZE]];
    if (run->state[HEAP_SIZE] > 0)
        sift_down(run, 0);
}

static void take_first(Gains *run)
{
    int64_t candidate = run->heap[0], n_picks = run->state[N_PICKS];
    int is_exact = run->pair_state[candidate] == EXACT;
    run->picks[n_picks] = candidate;
    run->gained[n_picks] = is_exact ? exact_gain(run, candidate) : 0.0;
    for (int64_t i = run->starts[candidate]; is_exact && i < run->stops[candidate]; i++)
        if (run->exact[i] > run->covered[run->rows[i]].cover)
            run->covered[run->rows[i]].cover = run->exact[i];
    run->bound[candidate] = -1.0;
    if (run->classes)
        run->remaining[run->classes[candidate]]--;
    run->state[N_PICKS]++;
    remove_first(run);
}

/* Updating many candidates in parallel */

#define PIECE_CANDIDATES 16

typedef struct {
    Gains *run;
    const int64_t *candidates;
    int64_t n, piece_size;
    int is_exact;
} UpdateTask;

static void update_piece(void *data, int64_t piece, void *scratch)
{
    UpdateTask *task = data;
    Gains *run = task->run;
    int64_t first = piece * task->piece_size, stop = first + task->piece_size < task->n ? first + task->piece_size : task->n;
    for (const int64_t *candidate = task->candidates + first; candidate < task->candidates + stop; candidate++) {
        int is_stale = run->stamp[*candidate] < run->state[N_PICKS] && run->pair_state[*candidate] != NO_PAIRS;
        if (task->is_exact && run->pair_state[*candidate] == BOUNDED) {
            make_exact(run, *candidate, scratch);
            is_stale = 1;
        }
        if (is_stale)
            update(run, *candidate);
    }
}

int update_gains(Gains *run, const int64_t *candidates, int64_t n, int is_exact, int n_threads)
{
    UpdateTask task = {run, candidates, n, is_exact ? 1 : PIECE_CANDIDATES, is_exact};
    ParallelFor loop = {.work = update_piece,
                        .task = &task,
                        .n_pieces = (n + task.piece_size - 1) / task.piece_size,
                        .scratch_bytes = (int64_t)sizeof(double) * 4 * run->space.d};
    return parallel_for(&loop, n_threads);
}

/* Picks. The heap holds the first FRONT candidates by bound. Most of these bounds are outdated, so they are updated together,
   on all threads. The picks do not depend on which bounds are up to date. */

#define FRONT 1024

static void sort_heap(Gains *run)
{
    for (int64_t i = run->state[HEAP_SIZE] / 2; i-- > 0;)
        sift_down(run, i);
}

/* Fill the heap, and store the first candidate outside it. The gains of at most ``max_exact`` candidates are made exact in
   advance, since nearly all of these will be picked. Returns the number of pairs read, or -1 if memory ran out. */
static int64_t make_heap(Gains *run, int64_t max_exact, int n_threads)
{
    int64_t n_pairs = 0, n_first = FRONT < run->n_candidates ? FRONT : run->n_candidates, n_exact = 2 * n_threads;
    Threshold next;
    int64_t n = first_in_order(run->bound, NULL, run->n_candidates, n_first, run->heap, &next, n_threads);
    for (int64_t i = 0; i < n; i++)
        n_pairs += run->stops[run->heap[i]] - run->starts[run->heap[i]];
    if (n < 0 || !update_gains(run, run->heap, n, 0, n_threads))
        return -1;
    run->state[HEAP_SIZE] = n;
    run->state[REST] = next.row;
    sort_heap(run);
    n_exact = n_exact < max_exact ? n_exact : max_exact;
    if (run->pool.data && !update_gains(run, run->heap, n_exact < n ? n_exact : n, 1, n_threads))
        return -1;
    sort_heap(run);
    return n_pairs;
}

/* Whether the first candidate of the heap comes before all candidates outside it. */
static int heap_has_first(const Gains *run)
{
    int64_t rest = run->state[REST];
    return run->state[HEAP_SIZE] > 0 && (rest < 0 || comes_before(run, run->heap[0], rest));
}

static int run_picks(Gains *run, int64_t limit, int64_t max_work, int n_threads, double *scratch)
{
    int64_t work = 0;
    while (run->state[N_PICKS] < limit && work <= max_work) {
        if (!heap_has_first(run)) {
            int64_t n_pairs = make_heap(run, limit - run->state[N_PICKS], n_threads);
            if (n_pairs < 0)
                return -1;
            work += n_pairs + FRONT;
            continue;
        }
        int64_t first = run->heap[0], n_pairs = run->stops[first] - run->starts[first];
        int is_current = run->stamp[first] == run->state[N_PICKS];
        if (run->classes && run->remaining[run->classes[first]] == 0) {
            run->bound[first] = -1.0;
            remove_first(run);
        } else if (run->bound[first] <= 0.0) {
            take_first(run); /* no remaining candidate adds anything */
        } else if (run->pair_state[first] == NO_PAIRS) {
            return NEEDS_PAIRS;
        } else if (is_current && run->pair_state[first] == EXACT) {
            take_first(run);
        } else {
            if (is_current) {
                if (run->pool.data == NULL)
                    return NEEDS_EXACT;
                make_exact(run, first, scratch);
                work += n_pairs * run->space.d;
            }
            update(run, first);
            work += n_pairs + 16;
            sift_down(run, 0);
        }
    }
    return run->state[N_PICKS] < limit ? TIME_OUT : PICKED_ALL;
}

int pick_covering(Gains *run, int64_t limit, int64_t max_work, int n_threads)
{
    double *scratch = malloc((size_t)(4 * run->space.d + 1) * sizeof(double));
    int why = scratch == NULL ? -1 : run_picks(run, limit, max_work, n_threads, scratch);
    free(scratch);
    return why;
}
