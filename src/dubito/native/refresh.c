/* Exact priorities of candidates: sketches rule out nearly all pairs, float32 differences nearly all of the rest, and
   exact distances decide. */

#include "extremes.h"
#include "portable.h"
#include "refresh.h"

#include <math.h>
#include <stdlib.h>

#define SPAN_BYTES (1 << 18) /* size of the panels that stay in the cache while all rows of a piece are multiplied */
#define MAX_PANELS 8
#define MIN_PAIRS 10000      /* number of pairs compared before a sketch may be judged useless */
#define PIECES_PER_THREAD 4
#define ROW_COST 1000        /* cost of reading and sketching a row, in comparisons with a reference */

/* A row of the piece and a reference that may lower its priority, with a lower bound on the resulting priority. */
typedef struct {
    int64_t row, reference;
    double lowest;
    int is_refined;
} Pair;

typedef struct {
    Pair *items;
    int64_t n, capacity;
} Pairs;

/* The rows of a piece, and a thread's scratch memory. */
typedef struct {
    int64_t first, n, block;    /* first row, rows, and rows padded to whole tiles */
    int64_t stride;             /* columns of ``near`` */
    double *one, *other, *scratch; /* (d,), (d,), (2·d,) */
    double *margins, *lengths;  /* (block,) */
    float *points, *probes;     /* (block, d), (block, width) */
    float *near;                /* (block, stride) */
    float *nearest;             /* (block,) the highest nearness that was refined */
    float *reference;           /* (d,) */
    Pairs pairs;
} Piece;

static int64_t panels_at_once(const Refresh *task)
{
    int64_t many = SPAN_BYTES / (task->width * PANEL * (int64_t)sizeof(float));
    return many < 1 ? 1 : many > MAX_PANELS ? MAX_PANELS : many;
}

static int64_t scratch_bytes(const Refresh *task)
{
    int64_t d = task->space.d, block = task->max_rows, stride = panels_at_once(task) * PANEL;
    return (int64_t)sizeof(double) * (4 * d + 2 * block) +
           (int64_t)sizeof(float) * (block * (d + task->width + stride + 1) + d);
}

static Piece make_piece(const Refresh *task, int64_t number, void *scratch)
{
    Piece piece = {.first = task->starts[number], .stride = panels_at_once(task) * PANEL};
    int64_t d = task->space.d;
    piece.n = task->starts[number + 1] - piece.first;
    piece.block = (piece.n + TILE - 1) / TILE * TILE;
    piece.one = scratch;
    piece.other = piece.one + d;
    piece.scratch = piece.other + d;
    piece.margins = piece.scratch + 2 * d;
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
    return row < task->n && task->limits[row] > 0.0 && !task->is_unfinished[row];
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
    const Constants *constants = &task->constants;
    int64_t d = task->space.d, width = task->width;
    for (int64_t i = piece->n * d; i < piece->block * d; i++)
        piece->points[i] = 0.0f;
    for (int64_t row = 0; row < piece->n; row++)
        read_shifted(&task->references.pool, task->rows[piece->first + row], &task->space, piece->scratch, piece->points + row * d);
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
        piece->margins[row] = sketch - constants->slack * size - constants->floor;
        piece->nearest[row] = -INFINITY;
    }
}

/* The minimum nearness at which a pair may lower its candidate's limit. */
static float nearness_threshold(const Refresh *task, const Piece *piece, int64_t row)
{
    const Constants *constants = &task->constants;
    double limit = task->limits[piece->first + row] + constants->smallest;
    double squared = limit / task->weights[piece->first + row] * (constants->round_up * constants->unit);
    return (float)(piece->margins[row] - (squared < constants->beyond ? squared : constants->beyond));
}

static void lower(double *value, double by)
{
    *value = by < *value ? by : *value;
}

/* Lower a row's limit by a float32 difference; returns a lower bound on the squared priority that the pair implies. */
static double tighten(const Refresh *task, Piece *piece, int64_t row, int64_t reference)
{
    const Constants *constants = &task->constants;
    double weight = task->weights[piece->first + row], length, error, low, high;
    int64_t source_row, d = task->space.d;
    const Numbers *from = source(&task->references, reference, &source_row);
    length = sqrt(squared_distance(
        piece->points + row * d, view_shifted(from, source_row, &task->space, piece->scratch, piece->reference), d));
    /* By the triangle inequality, |reference| <= |candidate| + distance. */
    error = constants->shift * (piece->lengths[row] + length) + constants->floor_length;
    low = length * (1.0 - constants->spread) - error;
    high = length * (1.0 + constants->spread) + error;
    low = low > 0.0 ? low : 0.0;
    /* Bound distances first, then multiply once by the weight, as the reference does: rounding is monotonic. */
    lower(&task->limits[piece->first + row], high * high * (constants->round_up / constants->unit) * weight);
    return low * low * (constants->round_down / constants->unit) * weight;
}

/* Lower a row's limit and distance by the exact distance of a pair. */
static void apply_exact_distance(const Refresh *task, Piece *piece, int64_t row, int64_t reference)
{
    int64_t source_row, own = piece->first + row, d = task->space.d;
    const Numbers *from = source(&task->references, reference, &source_row);
    double exact;
    read_exactly(&task->references.pool, task->rows[own], &task->space, piece->scratch, piece->one);
    read_exactly(from, source_row, &task->space, piece->scratch, piece->other);
    exact = exact_sq_distance(piece->one, piece->other, piece->scratch, d);
    lower(&task->squared[own], exact);
    lower(&task->limits[own], exact * task->weights[own]);
}

static int add_pair(Pairs *pairs, Pair pair)
{
    if (pairs->n == pairs->capacity) {
        int64_t capacity = pairs->capacity ? 2 * pairs->capacity : 256;
        Pair *items = realloc(pairs->items, (size_t)capacity * sizeof(Pair));
        if (items == NULL)
            return 0;
        pairs->items = items;
        pairs->capacity = capacity;
    }
    pairs->items[pairs->n++] = pair;
    return 1;
}

/* Lower a row's limit by the reference of a span whose sketch is nearest. Returns 0 if memory ran out. */
static int refine_nearest(const Refresh *task, Piece *piece, int64_t row, int64_t reference)
{
    int64_t own = piece->first + row;
    Pair nearest = {row, reference, tighten(task, piece, row, reference), 1};
    /* A duplicate of a reference: computing it now saves exact distances to all other duplicates. */
    if (nearest.lowest <= task->constants.smallest)
        apply_exact_distance(task, piece, row, reference);
    task->is_unfinished[own] = task->limits[own] < task->constants.needed;
    return add_pair(&piece->pairs, nearest);
}

/* Collect the pairs of a row and a span of references that may lower the row's limit. If the nearest reference is nearer than
   all before it, it is refined first, which rules out most others. If the threshold is NaN, nothing is collected; otherwise
   padding would be collected, too. */
static int collect_pairs(const Refresh *task, Piece *piece, int64_t row, int64_t start, int64_t n_panels)
{
    const Constants *constants = &task->constants;
    float *near = piece->near + row * piece->stride, tops[MAX_PANELS], threshold = nearness_threshold(task, piece, row);
    int64_t own = piece->first + row;
    int top = 0;
    for (int panel = 0; panel < n_panels; panel++) {
        tops[panel] = largest(near + panel * PANEL, PANEL);
        top = tops[panel] > tops[top] ? panel : top;
    }
    if (!(tops[top] >= threshold))
        return 1;
    if (tops[top] > piece->nearest[row]) {
        int64_t best = top * PANEL + index_of(near + top * PANEL, tops[top], PANEL);
        piece->nearest[row] = tops[top];
        near[best] = -INFINITY;
        if (!refine_nearest(task, piece, row, start + best))
            return 0;
        if (!is_active(task, own))
            return 1;
        threshold = nearness_threshold(task, piece, row);
    }
    for (int panel = 0; panel < n_panels; panel++) {
        if (!(tops[panel] >= threshold))
            continue;
        for (int64_t column = panel * PANEL; column < (panel + 1) * PANEL; column++) {
            double lowest = piece->margins[row] - near[column];
            if (!(near[column] >= threshold))
                continue;
            lowest = (lowest > 0.0 ? lowest : 0.0) * (constants->round_down / constants->unit) * task->weights[own];
            if (!add_pair(&piece->pairs, (Pair){row, start + column, lowest, 0}))
                return 0;
        }
    }
    return 1;
}

static int may_lower_limit(const Refresh *task, const Piece *piece, const Pair *pair)
{
    double limit = task->limits[piece->first + pair->row];
    return is_active(task, piece->first + pair->row) &&
           pair->lowest <= limit * task->constants.round_up + task->constants.smallest;
}

static void finish(const Refresh *task, Piece *piece)
{
    Pairs *pairs = &piece->pairs;
    for (Pair *pair = pairs->items; pair < pairs->items + pairs->n; pair++)
        if (!pair->is_refined && may_lower_limit(task, piece, pair)) {
            pair->lowest = tighten(task, piece, pair->row, pair->reference);
            pair->is_refined = 1;
        }
    for (Pair *pair = pairs->items; pair < pairs->items + pairs->n; pair++)
        if (pair->is_refined && may_lower_limit(task, piece, pair))
            apply_exact_distance(task, piece, pair->row, pair->reference);
}

/* Bound the distances of a piece's rows to all references they have not seen. */
static int bound(const Refresh *task, Piece *piece, int64_t *n_bounded)
{
    int64_t n_panels = (task->references.n_all + PANEL - 1) / PANEL, at_once = panels_at_once(task);
    int64_t n_tiles = (piece->n + TILE - 1) / TILE;
    uint8_t idle[MAX_TILES];
    for (int64_t start = task->seen[piece->first] / PANEL; start < n_panels; start += at_once) {
        int64_t many = n_panels - start < at_once ? n_panels - start : at_once;
        for (int64_t tile = 0; tile < n_tiles; tile++)
            idle[tile] = (uint8_t)is_idle(task, piece->first + tile * TILE);
        for (int64_t panel = 0; panel < many; panel++)
            multiply_tiles(piece->probes, n_tiles, task->width, task->panels + (start + panel) * task->width * PANEL,
                           piece->near + panel * PANEL, piece->stride, idle);
        for (int64_t row = 0; row < piece->n; row++)
            if (is_active(task, piece->first + row)) {
                *n_bounded += many * PANEL;
                if (!collect_pairs(task, piece, row, start * PANEL, many))
                    return 0;
            }
    }
    return 1;
}

static void refresh_piece(void *data, int64_t number, void *scratch)
{
    Refresh *task = data;
    Piece piece = make_piece(task, number, scratch);
    int64_t n_bounded = 0;
    for (int64_t row = piece.first; row < piece.first + piece.n; row++)
        task->is_unfinished[row] = task->limits[row] < task->constants.needed;
    prepare(task, &piece);
    int has_memory = bound(task, &piece, &n_bounded);
    int64_t all = task->n_bounded + n_bounded, passed = task->n_passed + piece.pairs.n;
    atomic_add(&task->bounded, n_bounded);
    atomic_add(&task->passed, piece.pairs.n);
    if (!has_memory || (task->directions && all > MIN_PAIRS && (double)passed > task->constants.max_passed * (double)all))
        cancel(&task->loop, !has_memory);
    else
        finish(task, &piece);
    free(piece.pairs.items);
}

static double cost(const Refresh *task, int64_t row)
{
    return (double)(ROW_COST + task->references.n_all - task->seen[row]);
}

/* Divide the rows into pieces of whole tiles and about equal cost; returns the number of pieces. */
static int64_t cut_pieces(const Refresh *task, int64_t *starts, int n_threads)
{
    int64_t n_pieces = 0;
    double target = 0.0, piece_cost = 0.0;
    for (int64_t row = 0; row < task->n; row++)
        target += cost(task, row) / (PIECES_PER_THREAD * n_threads);
    for (int64_t row = 0; row < task->n; row += TILE) {
        double tile_cost = TILE * cost(task, row);
        if (row == 0 || piece_cost + 0.5 * tile_cost > target || row - starts[n_pieces - 1] == task->max_rows) {
            starts[n_pieces++] = row;
            piece_cost = 0.0;
        }
        piece_cost += tile_cost;
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
    task->max_rows = TILE * tiles_for(n_tiles, task->space.d, 1);
    task->loop = (ParallelFor){.work = refresh_piece,
                            .task = task,
                            .n_pieces = cut_pieces(task, starts, n_threads),
                            .scratch_bytes = scratch_bytes(task)};
    task->starts = starts;
    has_memory = parallel_for(&task->loop, n_threads);
    free(starts);
    return !has_memory ? NO_MEMORY : task->loop.is_canceled ? USELESS : REFRESHED;
}
