// Choosing the children that remain: by score, then by the parent's rank, then by key. Of equal sets, the first remains.

constexpr unsigned NEAREST = 0, FARTHEST = ALL - 1, NONE = ALL;

// How far a child's score is behind the best one, as a number from NEAREST to FARTHEST; exact between these.
__device__ inline unsigned distance(Score score, Score behind) {
    const Score lead = score - behind, half = 1LL << 31;
    return lead < -half ? NEAREST : lead > half - 2 ? FARTHEST : (unsigned)(lead + half);
}

// The state of a warp: its configuration, in registers.
struct WarpState {
    int keys[PER_LANE];  // The keys of this lane's slots.
    int lowest;  // Candidates with at least this key are proposed.
    uint4 picked, proposed;
    Score total, ahead;  // The score, and its lead over that of the last configuration.
    bool is_short;  // Whether a candidate that is not on the list may come before the proposals.
};

// The slots of candidates with at least this key.
__device__ inline uint4 reaching(const WarpState &state, int key) {
    return make_uint4(__ballot_sync(ALL, state.keys[0] >= key), __ballot_sync(ALL, state.keys[1] >= key),
                      __ballot_sync(ALL, state.keys[2] >= key), __ballot_sync(ALL, state.keys[3] >= key));
}

// Remove proposals that would create the same set as an earlier configuration. If the two configurations differ in one
// pick, this is the other's pick, provided that the other configuration proposes this one's.
__device__ inline void remove_duplicates(Block &block, WarpState &state) {
    Shared &shared = block.shared;
    bool is_duplicate = false;
    int theirs = 0;
    if (block.lane < block.rank) {
        const uint4 other = shared.picked[block.lane], difference = without(other, state.picked);
        if (count_slots(difference) == 1) {
            theirs = only_slot(difference);
            const int ours = only_slot(without(state.picked, other));
            is_duplicate = (word_of(state.proposed, theirs >> 5) >> (theirs & 31) & 1u) &&
                      block.row(block.lane)[ours] >= shared.lowest[block.lane];
        }
    }
    if (__any_sync(ALL, is_duplicate)) {
        unsigned *out = (unsigned *)&shared.out[block.rank];
        if (block.lane < PER_LANE) out[block.lane] = 0;
        __syncwarp();
        if (is_duplicate) atomicOr(out + (theirs >> 5), 1u << (theirs & 31));
        __syncwarp();
        state.proposed = without(state.proposed, shared.out[block.rank]);
    }
}

// Distribute the proposed slots of a configuration over the lanes, in order: returns this lane's slot, or -1.
__device__ inline int list_proposals(Block &block, const WarpState &state) {
    const unsigned before = (1u << block.lane) - 1u;
    unsigned char *proposed = block.shared.proposed[block.rank];
    int n_before = 0;
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) {
        const unsigned word = word_of(state.proposed, at);
        if (word >> block.lane & 1u) proposed[n_before + __popc(word & before)] = (unsigned char)(32 * at + block.lane);
        n_before += __popc(word);
    }
    __syncwarp();
    return block.lane < n_before ? proposed[block.lane] : -1;
}

// Keep the proposed children of a configuration that may remain, one per lane.
//
// If each of the first width / m configurations has m children within some distance of the best score, then no child
// beyond that distance remains. ``distances`` holds this distance for every m; the smallest one leaves few children.
__device__ inline void keep_children(Block &block, WarpState &state, int n_live) {
    Shared &shared = block.shared;
    const int width = block.task.width, lane = block.lane, rank = block.rank;
    const Score best = shared.total[0] + shared.gain[shared.leader];
    int slot = -1;
    unsigned behind = NONE;
    if (rank < n_live) {
        remove_duplicates(block, state);
        slot = list_proposals(block, state);
        if (slot >= 0) behind = distance(best, state.total + shared.gain[slot]);
        if (rank * (lane + 1) < width) atomicMax(&shared.distances[lane], behind);
    }
    if (rank == 0 && n_live * (lane + 1) < width) atomicMax(&shared.distances[lane], NONE);
    __syncthreads();
    const unsigned lane_distance = lane < width ? shared.distances[lane] : NONE;
    const unsigned farthest = ~(unsigned)warp_max((int)(~lane_distance ^ 1u << 31)) ^ 1u << 31;
    const int n_children_each = 32 - __clz(__ballot_sync(ALL, lane_distance == farthest));
    // Of children at exactly this distance, those of the first configurations come first.
    const bool is_early = rank * n_children_each < width || farthest == NEAREST || farthest == FARTHEST;
    const bool is_kept = slot >= 0 && (behind < farthest || (behind == farthest && is_early));
    const unsigned kept = __ballot_sync(ALL, is_kept);
    if (kept) {
        int first = 0;
        if (lane == 0) first = atomicAdd(&shared.n_children, __popc(kept));
        first = __shfl_sync(ALL, first, 0);
        if (is_kept)
            block.children[first + lane] = {state.total + shared.gain[slot], block.row(rank)[slot],
                                            (unsigned)(rank * SLOTS + slot)};
    }
    __syncthreads();
}

// Rank the children that may remain, by counting; returns their number. All warps call this after publishing.
__device__ inline int rank_children(Block &block, WarpState &state, int n_live) {
    Shared &shared = block.shared;
    const int width = block.task.width, lane = block.lane;
    keep_children(block, state, n_live);
    const int n_children = shared.n_children;
    for (int at = block.rank; at < n_children; at += block.n_warps) {
        const Child child = block.children[at];
        const unsigned parent = child.number / SLOTS;
        int n_before = 0;
        for (int first = 0; first < n_children && n_before < width; first += 32) {
            const Child other = block.children[min(first + lane, n_children - 1)];
            const unsigned others = other.number / SLOTS;
            const bool is_tied = others < parent || (others == parent && other.key > child.key);
            const bool is_before = other.score > child.score || (other.score == child.score && is_tied);
            n_before += __popc(__ballot_sync(ALL, is_before && first + lane < n_children));
        }
        if (lane == 0 && n_before < width) shared.order[n_before] = (int)child.number, shared.score[n_before] = child.score;
    }
    __syncthreads();
    if (block.rank == 0) {
        shared.distances[lane] = 0;
        if (lane == 0) shared.n_children = 0;
    }
    return min(n_children, width);
}
