/* Steps of a beam over a short list, as dubito.engines.lazy.shortlist and beamfront do them in NumPy: the same numbers.

   A configuration keeps its candidates in order. A pick lowers few of them, so that a child's order is its parent's with
   a few moved back. Two children of equal score are compared as sets of bits, after their hashes. */

#include "steps.h"

#include <stdlib.h>
#include <string.h>

#define PICKED (-1.0)

/* A child that may live on. */
typedef struct {
    int64_t total;
    uint64_t hash;
    int32_t parent, pick;
} Child;

/* What a call has for itself. */
typedef struct {
    double *low, *high;           /* (width, m) what common and own picks leave */
    double *next_low, *next_high; /* (width, m) own intervals in the making */
    int32_t *next_order;          /* (width, m) */
    uint64_t *next_sets;          /* (width, n_words) */
    uint64_t *hashes;             /* (width,) of the sets */
    int64_t *n_firsts;            /* (width,) candidates that each would pick */
    Child *children;              /* (width,) best first */
    int64_t n_children;
} Room;

static uint64_t scrambled(int64_t place)
{
    uint64_t bits = (uint64_t)(place + 1) * 0x9E3779B97F4A7C15u;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return bits ^ (bits >> 31);
}

static uint64_t hash_of(const uint64_t *set, int64_t n_words)
{
    uint64_t hash = 0;
    for (int64_t place = 0; place < 64 * n_words; place++)
        if (set[place / 64] >> (place % 64) & 1)
            hash ^= scrambled(place);
    return hash;
}

WIDE static void merge(double *restrict merged, const double *restrict own, const double *restrict common, int64_t m)
{
    for (int64_t i = 0; i < m; i++)
        merged[i] = own[i] < common[i] ? own[i] : common[i];
}

/* Put an order that was right before some values fell right again: of equals the lower place first. */
static void mend_order(int32_t *order, const double *high, int64_t m)
{
    for (int64_t i = 1; i < m; i++) {
        int32_t moved = order[i];
        double value = high[moved];
        int64_t j = i;
        for (; j > 0; j--) {
            double before = high[order[j - 1]];
            if (before > value || (before == value && order[j - 1] < moved))
                break;
            order[j] = order[j - 1];
        }
        order[j] = moved;
    }
}

/* How many candidates a configuration would pick; -1 where its intervals do not tell which, -2 where something outside
   may come first. */
static int64_t count_firsts(const Beam *beam, const Room *room, Threshold bar, int64_t leaf)
{
    int64_t m = beam->m, n_wanted = beam->width < m ? beam->width : m, count = 0;
    const double *low = room->low + leaf * m, *high = room->high + leaf * m;
    const int32_t *order = beam->order + leaf * m;
    double floor = low[order[0]];
    for (int64_t i = 1; i < n_wanted; i++)
        floor = low[order[i]] < floor ? low[order[i]] : floor;
    if (m > n_wanted && floor > high[order[n_wanted]] && floor > bar.value && floor > 0.0)
        return n_wanted;
    /* Too low by an upper bound already: exactly, it would be no higher. */
    if (high[order[n_wanted - 1]] < bar.value)
        return -2;
    for (int64_t i = 0; i < m && high[order[i]] >= floor && high[order[i]] >= 0.0; i++)
        if (low[order[i]] < high[order[i]])
            return -1;
    if (bar.value >= 0.0 && !admits(bar, high[order[n_wanted - 1]], beam->rows[order[n_wanted - 1]]))
        return -2;
    while (count < n_wanted && high[order[count]] >= 0.0)
        count++;
    return count;
}

/* Whether two children, whose hashes are equal, are the same set. */
static int is_same(const Beam *beam, const Child *one, const Child *other)
{
    const uint64_t *left = beam->sets + one->parent * beam->n_words, *right = beam->sets + other->parent * beam->n_words;
    int64_t mine = beam->places[one->pick], theirs = beam->places[other->pick];
    for (int64_t word = 0; word < beam->n_words; word++) {
        uint64_t a = left[word] | (mine / 64 == word ? (uint64_t)1 << (mine % 64) : 0);
        uint64_t b = right[word] | (theirs / 64 == word ? (uint64_t)1 << (theirs % 64) : 0);
        if (a != b)
            return 0;
    }
    return 1;
}

/* Keep a child among the best, if it is one: by score, and of equals those that came before. A set's score is the sum of
   its picks' scores, so that the same set is only looked for among equals. */
static void consider(const Beam *beam, Room *room, Child child)
{
    Child *kept = room->children;
    int64_t n = room->n_children, place = n;
    while (place > 0 && kept[place - 1].total < child.total)
        place--;
    for (int64_t i = place; i > 0 && kept[i - 1].total == child.total; i--)
        if (kept[i - 1].hash == child.hash && is_same(beam, kept + i - 1, &child))
            return;
    if (place == beam->width)
        return;
    n = n < beam->width ? n + 1 : n;
    memmove(kept + place + 1, kept + place, (size_t)(n - 1 - place) * sizeof(Child));
    kept[place] = child;
    room->n_children = n;
}

static void breed(const Beam *beam, Room *room)
{
    room->n_children = 0;
    for (int64_t leaf = 0; leaf < beam->n_leaves; leaf++) {
        const int32_t *order = beam->order + leaf * beam->m;
        for (int64_t i = 0; i < room->n_firsts[leaf]; i++) {
            int64_t total = beam->totals[leaf] + beam->scores[order[i]];
            if (room->n_children == beam->width && total <= room->children[beam->width - 1].total)
                continue;
            uint64_t hash = room->hashes[leaf] ^ scrambled(beam->places[order[i]]);
            consider(beam, room, (Child){total, hash, (int32_t)leaf, order[i]});
        }
    }
}

/* A child's own intervals, order and set. */
WIDE static void adopt(const Beam *beam, Room *room, int64_t rank)
{
    int64_t m = beam->m;
    Child child = room->children[rank];
    const double *own_low = beam->own_low + child.parent * m, *own_high = beam->own_high + child.parent * m;
    const double *near = beam->near + child.pick * m, *far = beam->far + child.pick * m;
    double *restrict low = room->next_low + rank * m, *restrict high = room->next_high + rank * m;
    uint64_t *set = room->next_sets + rank * beam->n_words;
    for (int64_t i = 0; i < m; i++) {
        low[i] = near[i] < own_low[i] ? near[i] : own_low[i];
        high[i] = far[i] < own_high[i] ? far[i] : own_high[i];
    }
    low[child.pick] = high[child.pick] = PICKED;
    memcpy(room->next_order + rank * m, beam->order + child.parent * m, (size_t)m * sizeof(int32_t));
    memcpy(set, beam->sets + child.parent * beam->n_words, (size_t)beam->n_words * sizeof(uint64_t));
    set[beam->places[child.pick] / 64] |= (uint64_t)1 << (beam->places[child.pick] % 64);
}

static void note(const Beam *beam, const Room *room, int64_t step)
{
    for (int64_t rank = 0; rank < beam->width; rank++) {
        int64_t entry = step * beam->width + rank;
        beam->parents[entry] = -1;
        if (rank < room->n_children) {
            int64_t place = room->children[rank].parent * beam->m + room->children[rank].pick;
            beam->parents[entry] = room->children[rank].parent;
            beam->picks[entry] = room->children[rank].pick;
            beam->heights[entry] = room->high[place];
            beam->is_exact[entry] = room->low[place] == room->high[place];
        }
    }
}

static void merge_all(const Beam *beam, Room *room)
{
    for (int64_t leaf = 0; leaf < beam->n_leaves; leaf++) {
        int64_t start = leaf * beam->m;
        merge(room->low + start, beam->own_low + start, beam->common_low, beam->m);
        merge(room->high + start, beam->own_high + start, beam->common_high, beam->m);
        mend_order(beam->order + start, room->high + start, beam->m);
    }
}

static void grow(Beam *beam, Room *room)
{
    size_t n = (size_t)room->n_children, cells = n * (size_t)beam->m;
    for (int64_t rank = 0; rank < room->n_children; rank++)
        adopt(beam, room, rank);
    memcpy(beam->own_low, room->next_low, cells * sizeof(double));
    memcpy(beam->own_high, room->next_high, cells * sizeof(double));
    memcpy(beam->order, room->next_order, cells * sizeof(int32_t));
    memcpy(beam->sets, room->next_sets, n * (size_t)beam->n_words * sizeof(uint64_t));
    for (int64_t rank = 0; rank < room->n_children; rank++) {
        beam->totals[rank] = room->children[rank].total;
        room->hashes[rank] = room->children[rank].hash;
    }
    beam->n_leaves = room->n_children;
    merge_all(beam, room);
}

/* Strike out the children that nobody who is left descends from. */
static void strike_out(const Beam *beam, const Room *room, int64_t n_steps)
{
    int64_t *is_wanted = room->n_firsts, *is_next = (int64_t *)room->hashes;
    for (int64_t rank = 0; rank < beam->width; rank++)
        is_wanted[rank] = rank < beam->n_leaves;
    for (int64_t step = n_steps - 1; step >= 0; step--) {
        int32_t *parents = beam->parents + step * beam->width;
        memset(is_next, 0, (size_t)beam->width * sizeof(int64_t));
        for (int64_t rank = 0; rank < beam->width; rank++) {
            parents[rank] = is_wanted[rank] ? parents[rank] : -1;
            if (parents[rank] >= 0)
                is_next[parents[rank]] = 1;
        }
        int64_t *swapped = is_wanted;
        is_wanted = is_next;
        is_next = swapped;
    }
}

static int64_t run(Beam *beam, Room *room, Threshold bar, int64_t limit, int *why)
{
    merge_all(beam, room);
    for (int64_t leaf = 0; leaf < beam->n_leaves; leaf++)
        room->hashes[leaf] = hash_of(beam->sets + leaf * beam->n_words, beam->n_words);
    for (int64_t step = 0; step < limit; step++) {
        beam->n_unsure = 0;
        for (int64_t leaf = 0; leaf < beam->n_leaves; leaf++) {
            room->n_firsts[leaf] = count_firsts(beam, room, bar, leaf);
            if (room->n_firsts[leaf] == -2) {
                *why = OUTSIDE;
                return step;
            }
            if (room->n_firsts[leaf] == -1)
                beam->unsure[beam->n_unsure++] = leaf;
        }
        if (beam->n_unsure) {
            *why = UNSURE;
            return step;
        }
        breed(beam, room);
        note(beam, room, step);
        grow(beam, room);
    }
    *why = DONE;
    return limit;
}

int64_t step_beam(Beam *beam, Threshold bar, int64_t limit, int *why)
{
    size_t cells = (size_t)(beam->width * beam->m), words = (size_t)(beam->width * beam->n_words);
    size_t ranks = (size_t)beam->width, each = sizeof(uint64_t) + sizeof(int64_t) + sizeof(Child);
    char *memory = malloc(4 * cells * sizeof(double) + words * sizeof(uint64_t) + (ranks + 1) * each +
                          cells * sizeof(int32_t));
    int64_t made;
    Room room;
    if (memory == NULL)
        return -1;
    room.low = (double *)memory;
    room.high = room.low + cells;
    room.next_low = room.high + cells;
    room.next_high = room.next_low + cells;
    room.next_sets = (uint64_t *)(room.next_high + cells);
    room.hashes = room.next_sets + words;
    room.n_firsts = (int64_t *)(room.hashes + ranks + 1);
    room.children = (Child *)(room.n_firsts + ranks + 1);
    room.next_order = (int32_t *)(room.children + ranks + 1);
    made = run(beam, &room, bar, limit, why);
    strike_out(beam, &room, made);
    free(memory);
    return made;
}
