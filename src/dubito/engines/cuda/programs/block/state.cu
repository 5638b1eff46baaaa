// The state of a beam in a thread block. `BlockTask` in `dubito.engines.cuda.beam` mirrors `Task`. That module also
// defines the macros in capitals that are not defined here.
//
// Each warp processes one configuration; its number is the rank. Only a short list of the front's candidates, those with
// the highest keys, is processed. Each has a slot, in the order of scores, highest first. A lane holds one of every 32
// slots. Sets of slots are bit masks, which are the same in all lanes.

typedef long long Score;

constexpr unsigned ALL = 0xffffffffu;
constexpr int PER_LANE = SLOTS / 32;
constexpr int NEVER = 0x7fffffff;
constexpr unsigned char NOWHERE = 255;
constexpr Score NO_CHILD = -(1LL << 62);
enum Outcome { RAN_OUT, DONE, STUCK };

struct Task {
    // The front: keys (n,); for each pick, from starts[pick] on, the candidates that it lowers and their keys then; the
    // smallest key that comes before all candidates outside the front; and scores (n,).
    const int *start, *starts, *others, *left, *threshold_key;
    const Score *gains;
    // Positions that only some configurations picked (n_own,), which configurations did (n_live, n_own), and the
    // configurations' scores (n_live,).
    const long long *own;
    const unsigned char *is_held;
    const Score *totals;
    int *base;  // (n,) keys after the common picks.
    int *keys;  // (width, n) keys of the configurations at the end, and their scores.
    Score *last_totals;
    int4 *records;  // (limit, width) for each step: the parent's rank, the pick's position, its key, and 0.
    int *control;  // Number of steps, number of configurations, outcome.
    int n, n_keys, n_own, n_live, width, limit;
};

struct Child {
    Score score;
    int key;
    unsigned number;  // The parent's rank times SLOTS, and the slot.
};

// A pick, and the range of the candidates that it lowers.
struct Pick {
    int position, begin, end;
};

struct Shared {
    Score gain[SLOTS];
    Pick listed[SLOTS];  // By slot; position -1 in unused slots.
    Pick own[SLOTS];  // Picks of some configurations,
    unsigned holders[SLOTS];  // and which ones: a bit mask of ranks.
    // The configurations when they were last published.
    Score total[WIDEST];
    uint4 picked[WIDEST];
    int lowest[WIDEST];
    int best[2][WIDEST];  // In this step and the last one: the slot with which a plain step is possible, or why it is not.
    // For steps in which the children are ranked.
    Score score[WIDEST];
    uint4 out[WIDEST];
    int order[WIDEST];
    unsigned distances[WIDEST];
    unsigned char proposed[WIDEST][WIDEST];
    int leader;  // The best slot of the first configuration.
    int short_at, n_chosen, n_own, n_common, n_children, level, n_above;
};

// Used only while a list is built. At other times, this memory holds the keys of configurations.
struct ListScratch {
    Score gain[SLOTS];
    Pick chosen[SLOTS], common[SLOTS];
    int count[BUCKETS];
};

static_assert(sizeof(Shared) <= SHARED_BYTES && sizeof(ListScratch) <= LIST_BYTES && PER_LANE == 4);

struct Block {
    const Task &task;
    Shared &shared;
    ListScratch &list_scratch;
    int *low;  // (SLOTS, SLOTS) keys of the other candidates after a pick; NEVER if it does not lower them.
    int *rows;  // (width, PITCH) keys of the configurations on the list when they were last published.
    Child *children;  // (width * width)
    unsigned char *slot_of;  // (n,) slots of positions while a list is built; the memory holds children at other times.
    int rank, lane, n_warps;

    __device__ int *row(int config) const { return rows + config * PITCH; }
};

__device__ inline void set_slot(uint4 &bits, int slot) {
    const unsigned bit = 1u << (slot & 31);
    const int word = slot >> 5;
    bits.x |= word == 0 ? bit : 0;
    bits.y |= word == 1 ? bit : 0;
    bits.z |= word == 2 ? bit : 0;
    bits.w |= word == 3 ? bit : 0;
}

__device__ inline unsigned word_of(const uint4 &bits, int word) {
    return word < 2 ? (word == 0 ? bits.x : bits.y) : (word == 2 ? bits.z : bits.w);
}

// Set difference.
__device__ inline uint4 without(const uint4 &one, const uint4 &other) {
    return make_uint4(one.x & ~other.x, one.y & ~other.y, one.z & ~other.z, one.w & ~other.w);
}

__device__ inline int count_slots(const uint4 &bits) {
    return __popc(bits.x) + __popc(bits.y) + __popc(bits.z) + __popc(bits.w);
}

// The slot of the only bit that is set.
__device__ inline int only_slot(const uint4 &bits) {
    const int word = bits.x ? 0 : bits.y ? 1 : bits.z ? 2 : 3;
    return 32 * word + __ffs(bits.x | bits.y | bits.z | bits.w) - 1;
}

// Remove and return the first slot of a set; -1 if it is empty.
__device__ inline int take_first(uint4 &bits) {
    int slot;
    if (bits.x) {
        slot = __ffs(bits.x) - 1, bits.x &= bits.x - 1;
    } else if (bits.y) {
        slot = 31 + __ffs(bits.y), bits.y &= bits.y - 1;
    } else if (bits.z) {
        slot = 63 + __ffs(bits.z), bits.z &= bits.z - 1;
    } else {
        slot = bits.w ? 95 + __ffs(bits.w) : -1, bits.w &= bits.w - 1;
    }
    return slot;
}

// Reductions over a warp.
__device__ inline int warp_max(int value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value = max(value, __shfl_xor_sync(ALL, value, offset));
    return value;
}
