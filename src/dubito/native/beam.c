/* Steps of a beam over a short list, as dubito.engines.lazy.beam and beamfront do them in NumPy: the same numbers.

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

/* What a call has for itself: the next step's configurations, which change places with those there are. */
typedef struct {
    double *low, *high;           /* (width, m) */
    int32_t *order;               /* (width, m) */
    uint64_t *sets;               /* (width, n_words) */
    int32_t *moved;               /* (m,) candidates that a pick has lowered */
    uint8_t *is_moved;            /* (m,) */
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

/* What common picks leave counts, too. Of lower bounds only when they are looked at: settling may lift a common one. */
WIDE static void lower(double *restrict high, const double *restrict common, int64_t m)
{
    for (int64_t i = 0; i < m; i++)
        high[i] = common[i] < high[i] ? common[i] : high[i];
}

static double low_of(const Beam *beam, int64_t leaf, int32_t place)
{
    double own = beam->own_low[leaf * beam->m + place], common = beam->common_low[place];
    return own < common ? own : common;
}

static int is_before(const double *high, int32_t one, int32_t other)
{
    return high[one] > high[other] || (high[one] == high[other] && one < other);
}

/* Put an order that was right before some values fell right again: of equals the lower place first. */
static void hint_order(int32_t *order, const double *high, int64_t m)
{
    for (int64_t i = 1; i < m; i++) {
        int32_t moved = order[i];
        int64_t j = i;
        for (; j > 0 && is_before(high, moved, order[j - 1]); j--)
            order[j] = order[j - 1];
        order[j] = moved;
    }
}

/* The same where it is known which fell: those are taken out, and put in again from the end. */
static void put_back(const Room *room, const int32_t *before, int32_t *restrict order, const double *high, int64_t m)
{
    int64_t n_left = 0, n_moved = 0;
    for (int64_t i = 0; i < m; i++) {
        int32_t place = before[i];
        order[n_left] = room->moved[n_moved] = place;
        n_moved += room->is_moved[place];
        n_left += !room->is_moved[place];
    }
    hint_order(room->moved, high, n_moved);
    for (int64_t free = m - 1; n_moved > 0; free--) {
        int is_last = n_left == 0 || is_before(high, order[n_left - 1], room->moved[n_moved - 1]);
        order[free] = is_last ? room->moved[--n_moved] : order[--n_left];
    }
}

/* How many candidates a configuration would pick; -1 where its intervals do not tell which, -2 where something outside
   may come first. */
static int64_t count_firsts(const Beam *beam, Threshold bar, int64_t leaf)
{
    int64_t m = beam->m, n_wanted = beam->width < m ? beam->width : m, count = 0;
    const double *high = beam->own_high + leaf * m;
    const int32_t *order = beam->order + leaf * m;
    double floor = low_of(beam, leaf, order[0]);
    for (int64_t i = 1; i < n_wanted; i++) {
        double low = low_of(beam, leaf, order[i]);
        floor = low < floor ? low : floor;
    }
    if (m > n_wanted && floor > high[order[n_wanted]] && floor > bar.value && floor > 0.0)
        return n_wanted;
    /* Too low by an upper bound already: exactly, it would be no higher. */
    if (high[order[n_wanted - 1]] < bar.value)
        return -2;
    for (int64_t i = 0; i < m && high[order[i]] >= floor && high[order[i]] >= 0.0; i++)
        if (low_of(beam, leaf, order[i]) < high[order[i]])
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

static void expand(const Beam *beam, Room *room)
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

/* A child's intervals: its parent's, lowered by its pick. */
WIDE static void lower_by_pick(const Beam *beam, Room *room, int64_t rank)
{
    int64_t m = beam->m;
    Child child = room->children[rank];
    const double *own_low = beam->own_low + child.parent * m, *own_high = beam->own_high + child.parent * m;
    const double *near = beam->near + child.pick * m, *far = beam->far + child.pick * m;
    double *restrict low = room->low + rank * m, *restrict high = room->high + rank * m;
    uint8_t *restrict is_moved = room->is_moved;
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
static void adopt(const Beam *beam, Room *room, int64_t rank)
{
    int64_t m = beam->m;
    Child child = room->children[rank];
    uint64_t *set = room->sets + rank * beam->n_words;
    lower_by_pick(beam, room, rank);
    put_back(room, beam->order + child.parent * m, room->order + rank * m, room->high + rank * m, m);
    memcpy(set, beam->sets + child.parent * beam->n_words, (size_t)beam->n_words * sizeof(uint64_t));
    set[beam->places[child.pick] / 64] |= (uint64_t)1 << (beam->places[child.pick] % 64);
}

static void note(const Beam *beam, const Room *room, int64_t step)
{
    for (int64_t rank = 0; rank < beam->width; rank++) {
        int64_t entry = step * beam->width + rank;
        beam->parents[entry] = -1;
        if (rank < room->n_children) {
            Child child = room->children[rank];
            double high = beam->own_high[child.parent * beam->m + child.pick];
            beam->parents[entry] = child.parent;
            beam->picks[entry] = child.pick;
            beam->heights[entry] = high;
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

/* Change places: the next step's configurations, and those there are. */
static void change_places(Beam *beam, Room *room)
{
    SWAP(double, beam->own_low, room->low);
    SWAP(double, beam->own_high, room->high);
    SWAP(int32_t, beam->order, room->order);
    SWAP(uint64_t, beam->sets, room->sets);
}

static void grow(Beam *beam, Room *room)
{
    for (int64_t rank = 0; rank < room->n_children; rank++)
        adopt(beam, room, rank);
    for (int64_t rank = 0; rank < room->n_children; rank++) {
        beam->totals[rank] = room->children[rank].total;
        room->hashes[rank] = room->children[rank].hash;
    }
    beam->n_leaves = room->n_children;
    change_places(beam, room);
}

/* Configurations are handed back where they came from. */
static void hand_back(Beam *beam, Room *room)
{
    size_t n = (size_t)beam->n_leaves, cells = n * (size_t)beam->m;
    change_places(beam, room);
    memcpy(beam->own_low, room->low, cells * sizeof(double));
    memcpy(beam->own_high, room->high, cells * sizeof(double));
    memcpy(beam->order, room->order, cells * sizeof(int32_t));
    memcpy(beam->sets, room->sets, n * (size_t)beam->n_words * sizeof(uint64_t));
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
        SWAP(int64_t, is_wanted, is_next);
    }
}

static int64_t run(Beam *beam, Room *room, Threshold bar, int64_t limit, int *why)
{
    for (int64_t leaf = 0; leaf < beam->n_leaves; leaf++) {
        int64_t start = leaf * beam->m;
        lower(beam->own_high + start, beam->common_high, beam->m);
        hint_order(beam->order + start, beam->own_high + start, beam->m);
        room->hashes[leaf] = hash_of(beam->sets + leaf * beam->n_words, beam->n_words);
    }
    for (int64_t step = 0; step < limit; step++) {
        beam->n_unsure = 0;
        for (int64_t leaf = 0; leaf < beam->n_leaves; leaf++) {
            room->n_firsts[leaf] = count_firsts(beam, bar, leaf);
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
        expand(beam, room);
        note(beam, room, step);
        grow(beam, room);
    }
    *why = DONE;
    return limit;
}

int64_t step_beam(Beam *beam, Threshold bar, int64_t limit, int *why)
{
    size_t m = (size_t)beam->m, ranks = (size_t)beam->width, cells = ranks * m, words = ranks * (size_t)beam->n_words;
    size_t each = sizeof(uint64_t) + sizeof(int64_t) + sizeof(Child);
    char *memory = malloc(2 * cells * sizeof(double) + words * sizeof(uint64_t) + (ranks + 1) * each +
                          (cells + m + 1) * sizeof(int32_t) + m);
    int64_t made;
    Room room;
    if (memory == NULL)
        return -1;
    room.low = (double *)memory;
    room.high = room.low + cells;
    room.sets = (uint64_t *)(room.high + cells);
    room.hashes = room.sets + words;
    room.n_firsts = (int64_t *)(room.hashes + ranks + 1);
    room.children = (Child *)(room.n_firsts + ranks + 1);
    room.order = (int32_t *)(room.children + ranks + 1);
    room.moved = room.order + cells;
    room.is_moved = (uint8_t *)(room.moved + m + 1);
    made = run(beam, &room, bar, limit, why);
    strike_out(beam, &room, made);
    if (made % 2)
        hand_back(beam, &room);
    free(memory);
    return made;
}
