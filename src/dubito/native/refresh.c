/* Candidates brought up to date: sketches rule out nearly all pairs, float32 differences nearly all of the rest, and
   exact distances decide. */

#include "extremes.h"
#include "refresh.h"

#include <math.h>
#include <stdlib.h>

#define SPAN_BYTES (1 << 18) /* of panels that stay near the processor while all rows of a piece are multiplied */
#define MOST_PANELS 8
#define PROOF 10000          /* pairs after which a sketch is judged */
#define SHARES 4             /* pieces of each thread, about */
#define OWN_COST 1000        /* references that comparing a row with takes as long as reading and sketching it */

/* A pair that may matter: a row of the piece, a reference, and a lower bound on what it would leave. */
typedef struct {
    int64_t row, reference;
    double lowest;
    int is_sharp;
} Pair;

typedef struct {
    Pair *each;
    int64_t n, room;
} Pairs;

/* What a thread has for itself. */
typedef struct {
    int64_t first, n, block;    /* rows of this piece, and with what fills its last tile */
    int64_t stride;             /* places in a row of ``near`` */
    double *one, *other, *room; /* (d,), (d,), (2·d,) */
    double *margins, *lengths;  /* (block,) */
    float *points, *probes;     /* (block, d), (block, width) */
    float *near;                /* (block, stride) */
    float *nearest;             /* (block,) the highest nearness that was looked at closely */
    float *reference;           /* (d,) */
    Pairs pairs;
} Piece;

static int64_t panels_at_once(const Refresh *task)
{
    int64_t many = SPAN_BYTES / (task->width * PANEL * (int64_t)sizeof(float));
    return many < 1 ? 1 : many > MOST_PANELS ? MOST_PANELS : many;
}

static int64_t room_for(const Refresh *task)
{
    int64_t d = task->space.d, block = task->most_rows, stride = panels_at_once(task) * PANEL;
    return (int64_t)sizeof(double) * (4 * d + 2 * block) +
           (int64_t)sizeof(float) * (block * (d + task->width + stride + 1) + d);
}

static Piece lay_out(const Refresh *task, int64_t number, void *room)
{
    Piece piece = {.first = task->starts[number], .stride = panels_at_once(task) * PANEL};
    int64_t d = task->space.d;
    piece.n = task->starts[number + 1] - piece.first;
    piece.block = (piece.n + TILE - 1) / TILE * TILE;
    piece.one = room;
    piece.other = piece.one + d;
    piece.room = piece.other + d;
    piece.margins = piece.room + 2 * d;
    piece.lengths = piece.margins + piece.block;
    piece.points = (float *)(piece.lengths + piece.block);
    piece.probes = piece.points + piece.block * d;
    piece.near = piece.probes + piece.block * task->width;
    piece.nearest = piece.near + piece.block * piece.stride;
    piece.reference = piece.nearest + piece.block;
    return piece;
}

static int is_active(const Refresh *task, int64_t row)
{
    return row < task->n && task->limits[row] > 0.0 && !task->is_out[row];
}

static int is_idle(const Refresh *task, int64_t first)
{
    for (int row = 0; row < TILE; row++)
        if (is_active(task, first + row))
            return 0;
    return 1;
}

/* Read the rows and sketch them. */
static void prepare(const Refresh *task, Piece *piece)
{
    const Figures *figures = &task->figures;
    int64_t d = task->space.d, width = task->width;
    for (int64_t i = piece->n * d; i < piece->block * d; i++)
        piece->points[i] = 0.0f;
    for (int64_t row = 0; row < piece->n; row++)
        read_shifted(&task->references.pool, task->rows[piece->first + row], &task->space, piece->room, piece->points + row * d);
    if (task->directions)
        multiply_tiles(piece->points, piece->block / TILE, d, task->directions, piece->near, PANEL, NULL);
    for (int64_t row = 0; row < piece->block; row++) {
        const float *from = task->directions ? piece->near + row * PANEL : piece->points + row * d;
        float *probe = piece->probes + row * width;
        for (int64_t i = 0; i < width - 1; i++)
            probe[i] = from[i];
        probe[width - 1] = 1.0f;
    }
    for (int64_t row = 0; row < piece->n; row++) {
        double size = squared_length(piece->points + row * d, d);
        double sketch = task->directions ? squared_length(piece->probes + row * width, width - 1) : size;
        piece->lengths[row] = sqrt(size);
        piece->margins[row] = sketch - figures->slack * size - figures->floor;
        piece->nearest[row] = -INFINITY;
    }
}

/* The nearness at which a pair may reach its candidate's limit. */
static float threshold(const Refresh *task, const Piece *piece, int64_t row)
{
    const Figures *figures = &task->figures;
    double limit = task->limits[piece->first + row] + figures->smallest;
    double reach = limit / task->weights[piece->first + row] * (figures->round_up * figures->unit);
    return (float)(piece->margins[row] - (reach < figures->beyond ? reach : figures->beyond));
}

static void lower(double *value, double by)
{
    *value = by < *value ? by : *value;
}

/* Lower a row's limit by a float32 difference; a lower bound on what the pair leaves. */
static double tighten(const Refresh *task, Piece *piece, int64_t row, int64_t reference)
{
    const Figures *figures = &task->figures;
    double weight = task->weights[piece->first + row], length, reach, low, high;
    int64_t place, d = task->space.d;
    const Numbers *from = source(&task->references, reference, &place);
    length = sqrt(squared_distance(
        piece->points + row * d, see_shifted(from, place, &task->space, piece->room, piece->reference), d));
    /* A reference is no longer than its candidate and the way to it. */
    reach = figures->reach * (piece->lengths[row] + length) + figures->floor_length;
    low = length * (1.0 - figures->spread) - reach;
    high = length * (1.0 + figures->spread) + reach;
    low = low > 0.0 ? low : 0.0;
    /* Distances first, then one product with a weight, as the reference has it: rounding keeps their order. */
    lower(&task->limits[piece->first + row], high * high * (figures->round_up / figures->unit) * weight);
    return low * low * (figures->round_down / figures->unit) * weight;
}

/* Lower a row's limit and distance by the exact distance of a pair. */
static void settle_pair(const Refresh *task, Piece *piece, int64_t row, int64_t reference)
{
    int64_t place, own = piece->first + row, d = task->space.d;
    const Numbers *from = source(&task->references, reference, &place);
    double exact;
    read_exactly(&task->references.pool, task->rows[own], &task->space, piece->room, piece->one);
    read_exactly(from, place, &task->space, piece->room, piece->other);
    exact = settle(piece->one, piece->other, piece->room, d);
    lower(&task->squared[own], exact);
    lower(&task->limits[own], exact * task->weights[own]);
}

static int keep(Pairs *pairs, Pair pair)
{
    if (pairs->n == pairs->room) {
        int64_t room = pairs->room ? 2 * pairs->room : 256;
        Pair *each = realloc(pairs->each, (size_t)room * sizeof(Pair));
        if (each == NULL)
            return 0;
        pairs->each = each;
        pairs->room = room;
    }
    pairs->each[pairs->n++] = pair;
    return 1;
}

/* Lower a row's limit by the nearest reference of a span, as sketches have it. Whether there was memory for it. */
static int look_closely(const Refresh *task, Piece *piece, int64_t row, int64_t reference)
{
    int64_t own = piece->first + row;
    Pair nearest = {row, reference, tighten(task, piece, row, reference), 1};
    /* A copy of a reference: nothing can come nearer, and all other copies would have to be settled too. */
    if (nearest.lowest <= task->figures.smallest)
        settle_pair(task, piece, row, reference);
    task->is_out[own] = task->limits[own] < task->figures.needed;
    return keep(&piece->pairs, nearest);
}

/* Keep the pairs of a row with a span that may matter. The nearest is looked at closely if none before was nearer: of the
   others most are beyond the limit once all spans were looked at. Nothing is kept by a bar that is no number: what stands
   beyond the last reference would be, too. */
static int look_at(const Refresh *task, Piece *piece, int64_t row, int64_t start, int64_t n_panels)
{
    const Figures *figures = &task->figures;
    float *near = piece->near + row * piece->stride, tops[MOST_PANELS], bar = threshold(task, piece, row);
    int64_t own = piece->first + row;
    int top = 0;
    for (int panel = 0; panel < n_panels; panel++) {
        tops[panel] = largest(near + panel * PANEL, PANEL);
        top = tops[panel] > tops[top] ? panel : top;
    }
    if (!(tops[top] >= bar))
        return 1;
    if (tops[top] > piece->nearest[row]) {
        int64_t best = top * PANEL + place_of(near + top * PANEL, tops[top], PANEL);
        piece->nearest[row] = tops[top];
        near[best] = -INFINITY;
        if (!look_closely(task, piece, row, start + best))
            return 0;
        if (!is_active(task, own))
            return 1;
        bar = threshold(task, piece, row);
    }
    for (int panel = 0; panel < n_panels; panel++) {
        if (!(tops[panel] >= bar))
            continue;
        for (int64_t place = panel * PANEL; place < (panel + 1) * PANEL; place++) {
            double lowest = piece->margins[row] - near[place];
            if (!(near[place] >= bar))
                continue;
            lowest = (lowest > 0.0 ? lowest : 0.0) * (figures->round_down / figures->unit) * task->weights[own];
            if (!keep(&piece->pairs, (Pair){row, start + place, lowest, 0}))
                return 0;
        }
    }
    return 1;
}

/* Whether a pair may still lower its row's limit. */
static int is_within(const Refresh *task, const Piece *piece, const Pair *pair)
{
    double limit = task->limits[piece->first + pair->row];
    return is_active(task, piece->first + pair->row) &&
           pair->lowest <= limit * task->figures.round_up + task->figures.smallest;
}

static void finish(const Refresh *task, Piece *piece)
{
    Pairs *pairs = &piece->pairs;
    for (Pair *pair = pairs->each; pair < pairs->each + pairs->n; pair++)
        if (!pair->is_sharp && is_within(task, piece, pair)) {
            pair->lowest = tighten(task, piece, pair->row, pair->reference);
            pair->is_sharp = 1;
        }
    for (Pair *pair = pairs->each; pair < pairs->each + pairs->n; pair++)
        if (pair->is_sharp && is_within(task, piece, pair))
            settle_pair(task, piece, pair->row, pair->reference);
}

/* Bound every distance of a piece's rows to the references they have not seen. */
static int bound(const Refresh *task, Piece *piece, int64_t *n_bounded)
{
    int64_t n_panels = (task->references.n_all + PANEL - 1) / PANEL, at_once = panels_at_once(task);
    int64_t n_tiles = (piece->n + TILE - 1) / TILE;
    uint8_t idle[MOST_TILES];
    for (int64_t start = task->seen[piece->first] / PANEL; start < n_panels; start += at_once) {
        int64_t many = n_panels - start < at_once ? n_panels - start : at_once;
        for (int64_t tile = 0; tile < n_tiles; tile++)
            idle[tile] = is_idle(task, piece->first + tile * TILE);
        for (int64_t panel = 0; panel < many; panel++)
            multiply_tiles(piece->probes, n_tiles, task->width, task->panels + (start + panel) * task->width * PANEL,
                           piece->near + panel * PANEL, piece->stride, idle);
        for (int64_t row = 0; row < piece->n; row++)
            if (is_active(task, piece->first + row)) {
                *n_bounded += many * PANEL;
                if (!look_at(task, piece, row, start * PANEL, many))
                    return 0;
            }
    }
    return 1;
}

static void refresh_piece(void *given, int64_t number, void *room)
{
    Refresh *task = given;
    Piece piece = lay_out(task, number, room);
    int64_t n_bounded = 0;
    for (int64_t row = piece.first; row < piece.first + piece.n; row++)
        task->is_out[row] = task->limits[row] < task->figures.needed;
    prepare(task, &piece);
    int has_memory = bound(task, &piece, &n_bounded);
    int64_t all = task->n_bounded + n_bounded, passed = task->n_passed + piece.pairs.n;
    __atomic_fetch_add(&task->bounded, n_bounded, __ATOMIC_RELAXED);
    __atomic_fetch_add(&task->passed, piece.pairs.n, __ATOMIC_RELAXED);
    if (!has_memory || (task->directions && all > PROOF && passed > task->figures.most_passed * all))
        end_early(&task->shared, !has_memory);
    else
        finish(task, &piece);
    free(piece.pairs.each);
}

static double cost(const Refresh *task, int64_t row)
{
    return (double)(OWN_COST + task->references.n_all - task->seen[row]);
}

/* Cut rows into pieces of whole tiles that take about as long each; how many. */
static int64_t cut(const Refresh *task, int64_t *starts, int n_threads)
{
    int64_t n_pieces = 0;
    double most = 0.0, own = 0.0;
    for (int64_t row = 0; row < task->n; row++)
        most += cost(task, row) / (SHARES * n_threads);
    for (int64_t row = 0; row < task->n; row += TILE) {
        double tile = TILE * cost(task, row);
        if (row == 0 || own + 0.5 * tile > most || row - starts[n_pieces - 1] == task->most_rows) {
            starts[n_pieces++] = row;
            own = 0.0;
        }
        own += tile;
    }
    starts[n_pieces] = task->n;
    return n_pieces;
}

int refresh(Refresh *task, int n_threads)
{
    int64_t n_tiles = (task->n + TILE - 1) / TILE, *starts = malloc((size_t)(n_tiles + 1) * sizeof(int64_t));
    int has_memory = starts != NULL;
    if (!has_memory)
        return NO_MEMORY;
    task->most_rows = TILE * tiles_for(n_tiles, task->space.d, 1);
    task->shared = (Shared){.work = refresh_piece,
                            .task = task,
                            .n_pieces = cut(task, starts, n_threads),
                            .room_bytes = room_for(task)};
    task->starts = starts;
    has_memory = share(&task->shared, n_threads);
    free(starts);
    return !has_memory ? NO_MEMORY : task->shared.is_ended ? USELESS : REFRESHED;
}
