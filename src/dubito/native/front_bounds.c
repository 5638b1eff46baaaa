/* What picks leave to candidates of a front: intervals, as dubito.engines.lazy.front has them in NumPy. */

#include "steps.h"

#include <stdlib.h>

#define PICKED (-1.0)

/* Listed candidates: what every pick meets again. */
typedef struct {
    const int64_t *rows;
    double *errors, *weights;
    int64_t n;
} Listed;

static int list(const Front *front, const int64_t *rows, int64_t n, Listed *into)
{
    *into = (Listed){rows, malloc(sizeof(double) * (size_t)(2 * n + 1)), NULL, n};
    if (into->errors == NULL)
        return 0;
    into->weights = into->errors + n;
    for (int64_t i = 0; i < n; i++) {
        into->errors[i] = front->error[rows[i]];
        into->weights[i] = front->weights[rows[i]];
    }
    return 1;
}

WIDE static void bound(const Front *front, int64_t pick, const Listed *listed, double *restrict low,
                       double *restrict high)
{
    const double *squared = front->squared + pick * front->n, *errors = listed->errors, *weights = listed->weights;
    double error = front->error[pick], unit = front->unit;
    for (int64_t i = 0; i < listed->n; i++) {
        double slack = error + errors[i], own = squared[listed->rows[i]], below = own - slack;
        double weight = front->by_pick ? front->weights[pick] : weights[i];
        low[i] = (below > 0.0 ? below : 0.0) * unit * weight;
        high[i] = (own + slack) * unit * weight;
    }
}

int bounds_between(const Front *front, const int64_t *picks, int64_t n_picks, const int64_t *rows, int64_t m, double *low,
                   double *high)
{
    Listed listed;
    if (!list(front, rows, m, &listed))
        return 0;
    for (int64_t i = 0; i < n_picks; i++)
        bound(front, picks[i], &listed, low + i * m, high + i * m);
    free(listed.errors);
    return 1;
}

WIDE static void lower(double *restrict values, const double *restrict by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        values[i] = by[i] < values[i] ? by[i] : values[i];
}

/* Bounds of each pick once, however many configurations hold it: ``slot`` says where. */
typedef struct {
    int64_t *slot, *place; /* (n,) of a pick's bounds, and in the list; -1 for none */
    double *bounds;        /* (slots, 2, m) */
    int64_t n_slots;
} Room;

static int make_room(Room *room, int64_t n, int64_t n_picks, int64_t m)
{
    int64_t most = n_picks < n ? n_picks : n;
    *room = (Room){.slot = malloc(sizeof(int64_t) * (size_t)(2 * n + 1))};
    room->bounds = malloc(sizeof(double) * (size_t)(2 * most * m + 1));
    if (room->slot == NULL || room->bounds == NULL)
        return 0;
    room->place = room->slot + n;
    for (int64_t i = 0; i < 2 * n; i++)
        room->slot[i] = -1;
    return 1;
}

static const double *bounds_of(Room *room, const Front *front, int64_t pick, const Listed *listed)
{
    int64_t m = listed->n;
    if (room->slot[pick] < 0) {
        double *fresh = room->bounds + 2 * m * room->n_slots;
        room->slot[pick] = room->n_slots++;
        bound(front, pick, listed, fresh, fresh + m);
    }
    return room->bounds + 2 * m * room->slot[pick];
}

static void lower_leaves(const Front *front, const int64_t *picks, const int64_t *starts, int64_t n_leaves,
                         const Listed *listed, Room *room, double *low, double *high)
{
    int64_t m = listed->n;
    for (int64_t i = 0; i < m; i++)
        room->place[listed->rows[i]] = i;
    for (int64_t leaf = 0; leaf < n_leaves; leaf++) {
        for (int64_t i = starts[leaf]; i < starts[leaf + 1]; i++) {
            const double *bounds = bounds_of(room, front, picks[i], listed);
            lower(low + leaf * m, bounds, m);
            lower(high + leaf * m, bounds + m, m);
        }
        for (int64_t i = starts[leaf]; i < starts[leaf + 1]; i++)
            if (room->place[picks[i]] >= 0)
                low[leaf * m + room->place[picks[i]]] = high[leaf * m + room->place[picks[i]]] = PICKED;
    }
}

int own_intervals(const Front *front, const int64_t *picks, const int64_t *starts, int64_t n_leaves, const int64_t *rows,
                  int64_t m, double *low, double *high)
{
    Listed listed;
    Room room;
    int has_list = list(front, rows, m, &listed), has_room = make_room(&room, front->n, starts[n_leaves], m);
    if (has_list && has_room)
        lower_leaves(front, picks, starts, n_leaves, &listed, &room, low, high);
    free(listed.errors);
    free(room.slot);
    free(room.bounds);
    return has_list && has_room;
}
