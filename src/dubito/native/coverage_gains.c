/* Gains of candidates, and greedy picks by them. Sums that decide are added in the order of the rows, as
   dubito.core.coverage_reference adds them; all others are upper bounds. */

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

/* Put some points into the order of the pool. ``scratch`` is (n,), of doubles, which are as large as keys. */
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

/* The exact gain of a settled candidate. */
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

/* An upper bound on a candidate's gain; pairs that can add nothing any more are dropped. */
static double upper_gain(const Gains *run, int64_t candidate)
{
    int64_t start = run->starts[candidate], kept = start;
    double sum = 0.0;
    for (int64_t i = start; i < run->stops[candidate]; i++) {
        int32_t row = run->rows[i];
        double term = run->upper[i] - run->covered[row].cover;
        run->rows[kept] = row;
        run->upper[kept] = run->upper[i];
        kept += term > 0.0; /* no branch, which could not be predicted */
        sum += (term > 0.0 ? term : 0.0) * run->covered[row].weight;
    }
    run->stops[candidate] = kept;
    return sum * run->constants.round_up + run->constants.smallest * (double)(kept - start);
}

static void update(Gains *run, int64_t candidate)
{
    double gain = run->level[candidate] == EXACT ? exact_gain(run, candidate) : upper_gain(run, candidate);
    if (run->costs)
        gain /= run->costs[candidate];
    if (gain < run->bound[candidate])
        run->bound[candidate] = gain;
    run->stamp[candidate] = run->state[N_PICKS];
}

/* Compute the exact kernels of a candidate's pairs, in the order of the rows. ``scratch`` holds 4·d numbers. */
static void settle(Gains *run, int64_t candidate, double *scratch)
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
    run->level[candidate] = EXACT;
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
    int is_exact = run->level[candidate] == EXACT;
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

/* Candidates together */

#define TOGETHER 16

typedef struct {
    Gains *run;
    const int64_t *which;
    int64_t many, at_once;
    int is_exact;
} Updating;

static void update_piece(void *data, int64_t piece, void *scratch)
{
    Updating *task = data;
    Gains *run = task->run;
    int64_t first = piece * task->at_once, stop = first + task->at_once < task->many ? first + task->at_once : task->many;
    for (const int64_t *which = task->which + first; which < task->which + stop; which++) {
        int is_due = run->stamp[*which] < run->state[N_PICKS] && run->level[*which] != CLOSED;
        if (task->is_exact && run->level[*which] == OPEN) {
            settle(run, *which, scratch);
            is_due = 1;
        }
        if (is_due)
            update(run, *which);
    }
}

int update_gains(Gains *run, const int64_t *which, int64_t many, int is_exact, int n_threads)
{
    Updating task = {run, which, many, is_exact ? 1 : TOGETHER, is_exact};
    ParallelFor loop = {.work = update_piece,
                        .task = &task,
                        .n_pieces = (many + task.at_once - 1) / task.at_once,
                        .scratch_bytes = (int64_t)sizeof(double) * 4 * run->space.d};
    return parallel_for(&loop, n_threads);
}

/* Picks. The heap holds the first FRONT candidates, which are brought up to date together, on all threads: most of their
   bounds are outdated. No pick depends on which bounds are up to date. */

#define FRONT 1024

static void sort_heap(Gains *run)
{
    for (int64_t i = run->state[HEAP_SIZE] / 2; i-- > 0;)
        sift_down(run, i);
}

/* Begin a heap, and remember the first of the other candidates. At most ``most_settled`` are settled together, nearly all of
   which will be picked. Returns how many pairs were looked at, or -1 if memory ran out. */
static int64_t make_heap(Gains *run, int64_t most_settled, int n_threads)
{
    int64_t n_pairs = 0, n_first = FRONT < run->n_candidates ? FRONT : run->n_candidates, n_settled = 2 * n_threads;
    Threshold next;
    int64_t n = first_in_order(run->bound, NULL, run->n_candidates, n_first, run->heap, &next, n_threads);
    for (int64_t i = 0; i < n; i++)
        n_pairs += run->stops[run->heap[i]] - run->starts[run->heap[i]];
    if (n < 0 || !update_gains(run, run->heap, n, 0, n_threads))
        return -1;
    run->state[HEAP_SIZE] = n;
    run->state[REST] = next.row;
    sort_heap(run);
    n_settled = n_settled < most_settled ? n_settled : most_settled;
    if (run->pool.data && !update_gains(run, run->heap, n_settled < n ? n_settled : n, 1, n_threads))
        return -1;
    sort_heap(run);
    return n_pairs;
}

/* Whether the first of the heap comes before all other candidates. */
static int has_first(const Gains *run)
{
    int64_t rest = run->state[REST];
    return run->state[HEAP_SIZE] > 0 && (rest < 0 || comes_before(run, run->heap[0], rest));
}

static int run_picks(Gains *run, int64_t limit, int64_t most_work, int n_threads, double *scratch)
{
    int64_t work = 0;
    while (run->state[N_PICKS] < limit && work <= most_work) {
        if (!has_first(run)) {
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
            take_first(run); /* nothing adds anything any more */
        } else if (run->level[first] == CLOSED) {
            return NEEDS_PAIRS;
        } else if (is_current && run->level[first] == EXACT) {
            take_first(run);
        } else {
            if (is_current) {
                if (run->pool.data == NULL)
                    return NEEDS_EXACT;
                settle(run, first, scratch);
                work += n_pairs * run->space.d;
            }
            update(run, first);
            work += n_pairs + 16;
            sift_down(run, 0);
        }
    }
    return run->state[N_PICKS] < limit ? TIME_OUT : PICKED_ALL;
}

int pick_covering(Gains *run, int64_t limit, int64_t most_work, int n_threads)
{
    double *scratch = malloc((size_t)(4 * run->space.d + 1) * sizeof(double));
    int why = scratch == NULL ? -1 : run_picks(run, limit, most_work, n_threads, scratch);
    free(scratch);
    return why;
}
