/* Steps of a beam over a short list, with the same results as dubito.engines.lazy.beam.

   The candidates of a configuration are kept sorted. A pick lowers few of them, so the order of a child is that of its
   parent with a few candidates moved back. Children of equal score are compared by hash first, then as bit sets. */

#include "steps.h"

#include <stdlib.h>
#include <string.h>

#define PICKED (-1.0)

typedef struct {
    int64_t total;
    uint64_t hash;
    int32_t parent, pick;
} Child;

/* Buffers of a call, for the configurations of the next step. After each step they are swapped with the current ones. */
typedef struct {
    double *low, *high;           /* (width, m) */
    int32_t *order;               /* (width, m) */
    uint64_t *sets;               /* (width, n_words) */
    int32_t *moved;               /* (m,) candidates lowered by a pick */
    uint8_t *is_moved;            /* (m,) */
    uint64_t *hashes;             /* (width,) of the sets */
    int64_t *n_firsts;            /* (width,) how many candidates each would pick */
    Child *children;              /* (width,) best first */
    int64_t n_children;
} Scratch;

static uint64_t mix_bits(int64_t index)
{
    uint64_t bits = (uint64_t)(index + 1) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return bits ^ (bits >> 31);
}

static uint64_t hash_set(const uint64_t *set, int64_t n_words)
{
    uint64_t hash = 0;
    for (int64_t index = 0; index < 64 * n_words; index++)
        if (set[index / 64] >> (index % 64) & 1)
            hash ^= mix_bits(index);
    return hash;
}

/* Lower the upper bounds to those given the common picks. Lower bounds are combined only when they are read, since making a
   common interval exact may raise its lower bound. */
WIDE static void lower(double *restrict high, const double *restrict common, int64_t m)
{
    for (int64_t i = 0; i < m; i++)
        high[i] = common[i] < high[i] ? common[i] : high[i];
}

static double low_of(const Beam *beam, int64_t leaf, int32_t index)
{
    double own = beam->own_low[leaf * beam->m + index], common = beam->common_low[index];
    return own < common ? own : common;
}

static int is_before(const double *high, int32_t one, int32_t other)
{
    return high[one] > high[other] || (high[one] == high[other] && one < other);
}

/* Insertion sort, for an order in which few values have decreased. Ties go to the lower index. */
static void sort_nearly_sorted(int32_t *order, const double *high, int64_t m)
{
    for (int64_t i = 1; i < m; i++) {
        int32_t moved = order[i];
        int64_t j = i;
        for (; j > 0 && is_before(high, moved, order[j - 1]); j--)
            order[j] = order[j - 1];
        order[j] = moved;
    }
}

/* The same if the values that decreased are known: remove them from the order, and merge them into it from the end. */
static void update_order(const Scratch *scratch, const int32_t *before, int32_t *restrict order, const double *high, int64_t m)
{
    int64_t n_left = 0, n_moved = 0;
    for (int64_t i = 0; i < m; i++) {
        int32_t index = before[i];
        order[n_left] = scratch->moved[n_moved] = index;
        n_moved += scratch->is_moved[index];
        n_left += !scratch->is_moved[index];
    }
    sort_nearly_sorted(scratch->moved, high, n_moved);
    for (int64_t free = m - 1; n_moved > 0; free--) {
        int is_last = n_left == 0 || is_before(high, order[n_left - 1], scratch->moved[n_moved - 1]);
        order[free] = is_last ? scratch->moved[--n_moved] : order[--n_left];
    }
}

/* The number of candidates that a configuration proposes; -1 if its intervals do not determine which, -2 if a candidate
   outside the list may come first. */
static int64_t count_firsts(const Beam *beam, Threshold threshold, int64_t leaf)
{
    int64_t m = beam->m, n_wanted = beam->width < m ? beam->width : m, count = 0;
    const double *high = beam->own_high + leaf * m;
    const int32_t *order = beam->order + leaf * m;
    double floor = low_of(beam, leaf, order[0]);
    for (int64_t i = 1; i < n_wanted; i++) {
        double low = low_of(beam, leaf, order[i]);
        floor = low < floor ? low : floor;
    }
    if (m > n_wanted && floor > high[order[n_wanted]] && floor > threshold.value && floor > 0.0)
        return n_wanted;
    /* The exact value cannot be higher than this upper bound. */
    if (high[order[n_wanted - 1]] < threshold.value)
        return -2;
    for (int64_t i = 0; i < m && high[order[i]] >= floor && high[order[i]] >= 0.0; i++)
        if (low_of(beam, leaf, order[i]) < high[order[i]])
            return -1;
    if (threshold.value >= 0.0 && !admits(threshold, high[order[n_wanted - 1]], beam->rows[order[n_wanted - 1]]))
        return -2;
    while (count < n_wanted && high[order[count]] >= 0.0)
        count++;
    return count;
}

static int is_same_set(const Beam *beam, const Child *one, const Child *other)
{
    const uint64_t *left = beam->sets + one->parent * beam->n_words, *right = beam->sets + other->parent * beam->n_words;
    int64_t mine = beam->positions[one->pick], theirs = beam->positions[other->pick];
    for (int64_t word = 0; word < beam->n_words; word++) {
        uint64_t a = left[word] | (mine / 64 == word ? (uint64_t)1 << (mine % 64) : 0);
        uint64_t b = right[word] | (theirs / 64 == word ? (uint64_t)1 << (theirs % 64) : 0);
        if (a != b)
            return 0;
    }
    return 1;
}

/* Insert a child if it is among the best by score; ties go to the earlier one. The score of a set is the sum of its picks'
   scores, so duplicates of a set have equal scores. */
static void insert_child(const Beam *beam, Scratch *scratch, Child child)
{
    Child *kept = scratch->children;
    int64_t n = scratch->n_children, index = n;
    while (index > 0 && kept[index - 1].total < child.total)
        index--;
    for (int64_t i = index; i > 0 && kept[i - 1].total == child.total; i--)
        if (kept[i - 1].hash == child.hash && is_same_set(beam, kept + i - 1, &child))
            return;
    if (index == beam->width)
        return;
    n = n < beam->width ? n + 1 : n;
    memmove(kept + index + 1, kept + index, (size_t)(n - 1 - index) * sizeof(Child));
    kept[index] = child;
    scratch->n_children = n;
}

static void expand(const Beam *beam, Scratch *scratch)
{
    scratch->n_children = 0;
    for (int64_t leaf = 0; leaf < beam->n_leaves; leaf++) {
        const int32_t *order = beam->order + leaf * beam->m;
        for (int64_t i = 0; i < scratch->n_firsts[leaf]; i++) {
            int64_t total = beam->totals[leaf] + beam->scores[order[i]];
            if (scratch->n_children == beam->width && total <= scratch->children[beam->width - 1].total)
                continue;
            uint64_t hash = scratch->hashes[leaf] ^ mix_bits(beam->positions[order[i]]);
            insert_child(beam, scratch, (Child){total, hash, (int32_t)leaf, order[i]});
        }
    }
}

/* A child's intervals: its parent's, lowered by its pick. */
WIDE static void lower_by_pick(const Beam *beam, Scratch *scratch, int64_t rank)
{
    int64_t m = beam->m;
    Child child = scratch->children[rank];
    const double *own_low = beam->own_low + child.parent * m, *own_high = beam->own_high + child.parent * m;
    const double *near = beam->near + child.pick * m, *far = beam->far + child.pick * m;
    double *restrict low = scratch->low + rank * m, *restrict high = scratch->high + rank * m;
    uint8_t *restrict is_moved = scratch->is_moved;
    for (int64_t i = 0; i < m; i++) {
        low[i] = near[i] < own_low[i] ? near[i] : own_low[i];
        high[i] = far[i] < own_high[i] ? far[i] : own_high[i];
    }
    for (int64_t i = 0; i < m; i++)
        is_moved[i] = far[i] < own_high[i];
    low[child.pick] = high[child.pick] = PICKED;
    is_moved[child.pick] = 1;
}

/* A child's intervals, order and set. */
static void make_child(const Beam *beam, Scratch *scratch, int64_t rank)
{
    int64_t m = beam->m;
    Child child = scratch->children[rank];
    uint64_t *set = scratch->sets + rank * beam->n_words;
    lower_by_pick(beam, scratch, rank);
    update_order(scratch, beam->order + child.parent * m, scratch->order + rank * m, scratch->high + rank * m, m);
    memcpy(set, beam->sets + child.parent * beam->n_words, (size_t)beam->n_words * sizeof(uint64_t));
    set[beam->positions[child.pick] / 64] |= (uint64_t)1 << (beam->positions[child.pick] % 64);
}

static void log_step(const Beam *beam, const Scratch *scratch, int64_t step)
{
    for (int64_t rank = 0; rank < beam->width; rank++) {
        int64_t entry = step * beam->width + rank;
        beam->parents[entry] = -1;
        if (rank < scratch->n_children) {
            Child child = scratch->children[rank];
            double high = beam->own_high[child.parent * beam->m + child.pick];
            beam->parents[entry] = child.parent;
            beam->picks[entry] = child.pick;
            beam->pick_priorities[entry] = high;
            beam->is_exact[entry] = low_of(beam, child.parent, child.pick) == high;
        }
    }
}

#define SWAP(type, one, other)   \
    do {                         \
        type *swapped = (one);   \
        (one) = (other);         \
        (other) = swapped;       \
    } while (0)

static void swap_buffers(Beam *beam, Scratch *scratch)
{
    SWAP(double, beam->own_low, scratch->low);
    SWAP(double, beam->own_high, scratch->high);
    SWAP(int32_t, beam->order, scratch->order);
    SWAP(uint64_t, beam->sets, scratch->sets);
}

static void grow(Beam *beam, Scratch *scratch)
{
    for (int64_t rank = 0; rank < scratch->n_children; rank++)
        make_child(beam, scratch, rank);
    for (int64_t rank = 0; rank < scratch->n_children; rank++) {
        beam->totals[rank] = scratch->children[rank].total;
        scratch->hashes[rank] = scratch->children[rank].hash;
    }
    beam->n_leaves = scratch->n_children;
    swap_buffers(beam, scratch);
}

/* Copy the configurations to the caller's arrays. */
static void copy_back(Beam *beam, Scratch *scratch)
{
    size_t n = (size_t)beam->n_leaves, cells = n * (size_t)beam->m;
    swap_buffers(beam, scratch);
    memcpy(beam->own_low, scratch->low, cells * sizeof(double));
    memcpy(beam->own_high, scratch->high, cells * sizeof(double));
    memcpy(beam->order, scratch->order, cells * sizeof(int32_t));
    memcpy(beam->sets, scratch->sets, n * (size_t)beam->n_words * sizeof(uint64_t));
}

/* Mark children without living descendants by parent -1. */
static void drop_dead_branches(const Beam *beam, const Scratch *scratch, int64_t n_steps)
{
    int64_t *is_alive = scratch->n_firsts, *is_next = (int64_t *)scratch->hashes;
    for (int64_t rank = 0; rank < beam->width; rank++)
        is_alive[rank] = rank < beam->n_leaves;
    for (int64_t step = n_steps - 1; step >= 0; step--) {
        int32_t *parents = beam->parents + step * beam->width;
        memset(is_next, 0, (size_t)beam->width * sizeof(int64_t));
        for (int64_t rank = 0; rank < beam->width; rank++) {
            parents[rank] = is_alive[rank] ? parents[rank] : -1;
            if (parents[rank] >= 0)
                is_next[parents[rank]] = 1;
        }
        SWAP(int64_t, is_alive, is_next);
    }
}

static int64_t run(Beam *beam, Scratch *scratch, Threshold threshold, int64_t limit, int *why)
{
    for (int64_t leaf = 0; leaf < beam->n_leaves; leaf++) {
        int64_t start = leaf * beam->m;
        lower(beam->own_high + start, beam->common_high, beam->m);
        sort_nearly_sorted(beam->order + start, beam->own_high + start, beam->m);
        scratch->hashes[leaf] = hash_set(beam->sets + leaf * beam->n_words, beam->n_words);
    }
    for (int64_t step = 0; step < limit; step++) {
        beam->n_unsure = 0;
        for (int64_t leaf = 0; leaf < beam->n_leaves; leaf++) {
            scratch->n_firsts[leaf] = count_firsts(beam, threshold, leaf);
            if (scratch->n_firsts[leaf] == -2) {
                *why = OUTSIDE;
                return step;
            }
            if (scratch->n_firsts[leaf] == -1)
                beam->unsure[beam->n_unsure++] = leaf;
        }
        if (beam->n_unsure) {
            *why = UNSURE;
            return step;
        }
        expand(beam, scratch);
        log_step(beam, scratch, step);
        grow(beam, scratch);
    }
    *why = DONE;
    return limit;
}

int64_t step_beam(Beam *beam, Threshold threshold, int64_t limit, int *why)
{
    size_t m = (size_t)beam->m, ranks = (size_t)beam->width, cells = ranks * m, words = ranks * (size_t)beam->n_words;
    size_t each = sizeof(uint64_t) + sizeof(int64_t) + sizeof(Child);
    char *memory = malloc(2 * cells * sizeof(double) + words * sizeof(uint64_t) + (ranks + 1) * each +
                          (cells + m + 1) * sizeof(int32_t) + m);
    int64_t made;
    Scratch scratch;
    if (memory == NULL)
        return -1;
    scratch.low = (double *)memory;
    scratch.high = scratch.low + cells;
    scratch.sets = (uint64_t *)(scratch.high + cells);
    scratch.hashes = scratch.sets + words;
    scratch.n_firsts = (int64_t *)(scratch.hashes + ranks + 1);
    scratch.children = (Child *)(scratch.n_firsts + ranks + 1);
    scratch.order = (int32_t *)(scratch.children + ranks + 1);
    scratch.moved = scratch.order + cells;
    scratch.is_moved = (uint8_t *)(scratch.moved + m + 1);
    made = run(beam, &scratch, threshold, limit, why);
    drop_dead_branches(beam, &scratch, made);
    if (made % 2)
        copy_back(beam, &scratch);
    free(memory);
    return made;
}
