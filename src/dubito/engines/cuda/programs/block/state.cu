// What one block of threads keeps of a beam. `dubito.engines.cuda.block` has the other side of `Task`, as `BlockTask`,
// and defines what is written in capitals and not here.
//
// A warp is a configuration, by rank. Of the front only a short list is looked at, candidates with the highest keys:
// each has a slot, and slots are in the order of scores, highest first. Of every 32 slots a lane has one. Sets of slots
// are bits, which all lanes have alike.

typedef long long Score;

constexpr unsigned ALL = 0xffffffffu;
constexpr int PER_LANE = SLOTS / 32;
constexpr int NEVER = 0x7fffffff;
constexpr unsigned char NOWHERE = 255;
constexpr Score NO_CHILD = -(1LL << 62);
enum Outcome { RAN_OUT, DONE, STUCK };

struct Task {
    // The board: keys (n,); of each pick from starts[pick] on, whom it lowers and to which keys; scores (n,).
    const int *start, *starts, *others, *left, *bar;
    const Score *gains;
    // Places that some configurations hold (n_own,), who does (n_live, n_own), and their scores (n_live,).
    const long long *own;
    const unsigned char *is_held;
    const Score *totals;
    int *base;  // (n,) keys that common picks leave.
    int *keys;  // (width, n) of the configurations in the end, and their scores.
    Score *last_totals;
    int4 *past;  // (limit, width) of each step the parent's rank, the pick's place and its key; and nothing.
    int *control;  // Steps made, configurations, and the outcome.
    int n, n_keys, n_own, n_live, width, limit;
};

struct Child {
    Score worth;
    int key;
    unsigned number;  // The parent's rank times SLOTS, and the slot.
};

// A pick, and where those that it lowers begin and end.
struct Pick {
    int place, begin, end;
};

struct Shared {
    Score gain[SLOTS];
    Pick listed[SLOTS];  // By slot; nowhere, -1, in slots that are not used.
    Pick own[SLOTS];  // What some configurations hold,
    unsigned holders[SLOTS];  // and which: bits of ranks.
    // Configurations, as of when they were last published.
    Score total[WIDEST];
    uint4 picked[WIDEST];
    int lowest[WIDEST];
    int best[2][WIDEST];  // In this step and in the last one: the slot that all others must agree on, or why not.
    // Of a step whose children are ranked.
    Score worth[WIDEST];
    uint4 out[WIDEST];
    int order[WIDEST];
    unsigned reach[WIDEST];
    unsigned char proposed[WIDEST][WIDEST];
    int leader;  // The best slot of the first configuration.
    int short_at, n_drawn, n_own, n_common, n_children, level, n_above;
};

// What is needed while a list is drawn, where the keys of configurations lie in between.
struct Drawing {
    Score gain[SLOTS];
    Pick drawn[SLOTS], common[SLOTS];
    int count[BUCKETS];
};

static_assert(sizeof(Shared) <= SHARED_BYTES && sizeof(Drawing) <= DRAWING_BYTES && PER_LANE == 4);

struct Block {
    const Task &task;
    Shared &shared;
    Drawing &drawing;
    int *low;  // (SLOTS, SLOTS) keys that a pick leaves to the others on the list; NEVER where it leaves them alone.
    int *rows;  // (width, PITCH) keys of the configurations on the list, as of when they were last published.
    Child *children;  // (width * width)
    unsigned char *slot_of;  // (n,) of places, while a list is drawn; children lie there in between.
    int rank, lane, n_warps;

    __device__ int *row(int of) const { return rows + of * PITCH; }
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

// The slots of the one that are not the other's.
__device__ inline uint4 without(const uint4 &one, const uint4 &other) {
    return make_uint4(one.x & ~other.x, one.y & ~other.y, one.z & ~other.z, one.w & ~other.w);
}

__device__ inline int count_slots(const uint4 &bits) {
    return __popc(bits.x) + __popc(bits.y) + __popc(bits.z) + __popc(bits.w);
}

// Of bits of which one is set: its slot.
__device__ inline int only_slot(const uint4 &bits) {
    const int word = bits.x ? 0 : bits.y ? 1 : bits.z ? 2 : 3;
    return 32 * word + __ffs(bits.x | bits.y | bits.z | bits.w) - 1;
}

// Take the first slot out of some; -1 where there is none.
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

// Over a warp.
__device__ inline int warp_max(int value) {
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) value = max(value, __shfl_xor_sync(ALL, value, apart));
    return value;
}
