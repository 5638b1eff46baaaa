// The children that remain: by score, then by the parent's rank, then by priority; of equal sets, the first.

constexpr unsigned NEAREST = 0, FARTHEST = ALL - 1, NONE = ALL;

// How much worse a child is than another, as a number from NEAREST to FARTHEST; exact between these.
__device__ inline unsigned distance(Score worth, Score behind) {
    const Score apart = worth - behind, half = 1LL << 31;
    return apart < -half ? NEAREST : apart > half - 2 ? FARTHEST : (unsigned)(apart + half);
}

// A configuration, in the registers of a warp.
struct Mine {
    int keys[PER_LANE];  // Of the lane's slots.
    int lowest;  // Keys of at least this value are proposed.
    uint4 picked, proposed;
    Score total, ahead;  // Its score, and its lead over the last configuration.
    bool is_short;  // Whether a candidate that is not on the list may come before its proposals.
};

// The slots with at least this key.
__device__ inline uint4 reaching(const Mine &mine, int key) {
    return make_uint4(__ballot_sync(ALL, mine.keys[0] >= key), __ballot_sync(ALL, mine.keys[1] >= key),
                      __ballot_sync(ALL, mine.keys[2] >= key), __ballot_sync(ALL, mine.keys[3] >= key));
}

// Remove proposals that would create the same set as an earlier configuration: if the two differ in one pick, the
// other's pick, provided that the other may propose this configuration's.
__device__ inline void leave_out_twins(Block &block, Mine &mine) {
    Shared &shared = block.shared;
    bool is_twin = false;
    int theirs = 0;
    if (block.lane < block.rank) {
        const uint4 other = shared.picked[block.lane], odd = without(other, mine.picked);
        if (count_slots(odd) == 1) {
            theirs = only_slot(odd);
            const int ours = only_slot(without(mine.picked, other));
            is_twin = (word_of(mine.proposed, theirs >> 5) >> (theirs & 31) & 1u) &&
                      block.row(block.lane)[ours] >= shared.lowest[block.lane];
        }
    }
    if (__any_sync(ALL, is_twin)) {
        unsigned *out = (unsigned *)&shared.out[block.rank];
        if (block.lane < PER_LANE) out[block.lane] = 0;
        __syncwarp();
        if (is_twin) atomicOr(out + (theirs >> 5), 1u << (theirs & 31));
        __syncwarp();
        mine.proposed = without(mine.proposed, shared.out[block.rank]);
    }
}

// The slot that a configuration proposes in each lane, in order; -1 in the remaining lanes.
__device__ inline int spread_out(Block &block, const Mine &mine) {
    const unsigned before = (1u << block.lane) - 1u;
    unsigned char *proposed = block.shared.proposed[block.rank];
    int n_before = 0;
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) {
        const unsigned word = word_of(mine.proposed, at);
        if (word >> block.lane & 1u) proposed[n_before + __popc(word & before)] = (unsigned char)(32 * at + block.lane);
        n_before += __popc(word);
    }
    __syncwarp();
    return block.lane < n_before ? proposed[block.lane] : -1;
}

// Keep those proposed children of a configuration that may remain: one per lane.
//
// If each of the first width / m configurations has m children within some distance of the best, then no child beyond
// that distance remains. ``reach`` has this distance for every m; the smallest leaves few children.
__device__ inline void keep_children(Block &block, Mine &mine, int n_live) {
    Shared &shared = block.shared;
    const int width = block.task.width, lane = block.lane, rank = block.rank;
    const Score best = shared.total[0] + shared.gain[shared.leader];
    int slot = -1;
    unsigned behind = NONE;
    if (rank < n_live) {
        leave_out_twins(block, mine);
        slot = spread_out(block, mine);
        if (slot >= 0) behind = distance(best, mine.total + shared.gain[slot]);
        if (rank * (lane + 1) < width) atomicMax(&shared.reach[lane], behind);
    }
    if (rank == 0 && n_live * (lane + 1) < width) atomicMax(&shared.reach[lane], NONE);
    __syncthreads();
    const unsigned reach = lane < width ? shared.reach[lane] : NONE;
    const unsigned farthest = ~(unsigned)warp_max((int)(~reach ^ 1u << 31)) ^ 1u << 31;
    const int many = 32 - __clz(__ballot_sync(ALL, reach == farthest));
    // Of children at exactly this distance, those of the first configurations come first.
    const bool is_early = rank * many < width || farthest == NEAREST || farthest == FARTHEST;
    const bool is_kept = slot >= 0 && (behind < farthest || (behind == farthest && is_early));
    const unsigned kept = __ballot_sync(ALL, is_kept);
    if (kept) {
        int first = 0;
        if (lane == 0) first = atomicAdd(&shared.n_children, __popc(kept));
        first = __shfl_sync(ALL, first, 0);
        if (is_kept)
            block.children[first + lane] = {mine.total + shared.gain[slot], block.row(rank)[slot],
                                            (unsigned)(rank * SLOTS + slot)};
    }
    __syncthreads();
}

// Rank the children that may remain, by counting; returns their number. All warps call this after publishing.
__device__ inline int rank_children(Block &block, Mine &mine, int n_live) {
    Shared &shared = block.shared;
    const int width = block.task.width, lane = block.lane;
    keep_children(block, mine, n_live);
    const int n_children = shared.n_children;
    for (int at = block.rank; at < n_children; at += block.n_warps) {
        const Child child = block.children[at];
        const unsigned parent = child.number / SLOTS;
        int n_before = 0;
        for (int first = 0; first < n_children && n_before < width; first += 32) {
            const Child other = block.children[min(first + lane, n_children - 1)];
            const unsigned others = other.number / SLOTS;
            const bool is_tied = others < parent || (others == parent && other.key > child.key);
            const bool is_before = other.worth > child.worth || (other.worth == child.worth && is_tied);
            n_before += __popc(__ballot_sync(ALL, is_before && first + lane < n_children));
        }
        if (lane == 0 && n_before < width) shared.order[n_before] = (int)child.number, shared.worth[n_before] = child.worth;
    }
    __syncthreads();
    if (block.rank == 0) {
        shared.reach[lane] = 0;
        if (lane == 0) shared.n_children = 0;
    }
    return min(n_children, width);
}
