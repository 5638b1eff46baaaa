// Which children live on: by score, then by the parent's rank, then by priority; of those that are one set, the first.

constexpr unsigned NEAREST = 0, FARTHEST = ALL - 1, NONE = ALL;

// How far a child stays behind another, in order, as a number from NEAREST to FARTHEST; exact between these.
__device__ inline unsigned distance(Score worth, Score behind) {
    const Score apart = worth - behind, half = 1LL << 31;
    return apart < -half ? NEAREST : apart > half - 2 ? FARTHEST : (unsigned)(apart + half);
}

// A configuration at hand: its keys in a lane's slots, its lowest key proposed, its picks and its score.
struct Mine {
    int keys[PER_LANE];
    int lowest;
    uint4 picked;
    Score total;
    unsigned alive;  // Bits of the lane's slots that it proposes, and nobody before it.
};

// Bits of the lane's slots whose keys reach a key.
__device__ inline unsigned reaching(const Mine &mine, int key) {
    return (unsigned)(mine.keys[0] >= key) | (unsigned)(mine.keys[1] >= key) << 1 | (unsigned)(mine.keys[2] >= key) << 2 |
           (unsigned)(mine.keys[3] >= key) << 3;
}

// Which of a configuration's candidates it proposes, less those by which it would become what an earlier one becomes:
// where the two are one pick apart, it must not take the other's odd pick if the other may take its own.
__device__ inline void find_alive(Block &block, Mine &mine, int now) {
    const Shared &shared = block.shared;
    mine.alive = reaching(mine, mine.lowest);
    unsigned twins = 0;
    int theirs = 0;
    if (block.lane < block.rank) {
        const uint4 other = shared.picked[now][block.lane], odd = without(other, mine.picked);
        if (count_slots(odd) == 1) {
            theirs = only_slot(odd);
            const int ours = only_slot(without(mine.picked, other));
            twins = block.row(now, block.lane)[ours] >= shared.lowest[now][block.lane] &&
                    block.row(now, block.rank)[theirs] >= mine.lowest;
        }
    }
    for (twins = __ballot_sync(ALL, twins); twins; twins &= twins - 1) {
        const int out = __shfl_sync(ALL, theirs, __ffs(twins) - 1);
        if (out >> 2 == block.lane) mine.alive &= ~(1u << (out & 3));
    }
}

// Publish what a configuration's best children are worth; returns the slot of the first, or -1.
__device__ inline int publish_best(Block &block, const Mine &mine, int which) {
    Shared &shared = block.shared;
    const unsigned after = mine.alive & (mine.alive - 1), lanes = __ballot_sync(ALL, mine.alive != 0);
    const unsigned has_two = __ballot_sync(ALL, after != 0);
    const int slot = PER_LANE * block.lane + __ffs(mine.alive) - 1;
    if (lanes == 0) {
        if (block.lane == 0) shared.first[which][block.rank] = shared.second[which][block.rank] = NO_CHILD;
        return -1;
    }
    const int leader = __ffs(lanes) - 1, next = has_two >> leader & 1u ? leader : __ffs(lanes & (lanes - 1)) - 1;
    if (block.lane == leader) shared.first[which][block.rank] = mine.total + shared.gain[slot];
    if (block.lane == (next < 0 ? leader : next)) {
        const int other = next == leader ? PER_LANE * block.lane + __ffs(after) - 1 : slot;
        shared.second[which][block.rank] = next < 0 ? NO_CHILD : mine.total + shared.gain[other];
    }
    return __shfl_sync(ALL, slot, leader);
}

// Keep the children of a configuration that may live on, of all that it proposes: one to a lane.
//
// If each of the first width / m configurations has m children no farther behind than some distance, then no child
// farther behind lives on. ``reach`` has that distance for every m, and the least of them leaves few children.
__device__ inline void keep_children(Block &block, const Mine &mine, int now, int n_live) {
    Shared &shared = block.shared;
    const int width = block.task.width, lane = block.lane, rank = block.rank;
    const Score best = shared.first[now][0], total = rank < n_live ? shared.total[now][rank] : 0;
    int slot = 0, n_mine = 0;
    unsigned behind = NONE;
    if (rank < n_live) {
        const unsigned before = (1u << lane) - 1u;
        int number = 0;
#pragma unroll
        for (int at = 0; at < PER_LANE; ++at) {
            const unsigned lanes = __ballot_sync(ALL, mine.alive >> at & 1u);
            number += __popc(lanes & before), n_mine += __popc(lanes);
        }
#pragma unroll
        for (int at = 0; at < PER_LANE; ++at)
            if (mine.alive >> at & 1u) shared.proposed[rank][number++] = (unsigned char)(PER_LANE * lane + at);
        __syncwarp();
        if (lane < n_mine) {
            slot = shared.proposed[rank][lane];
            behind = distance(best, total + shared.gain[slot]);
        }
        if (rank * (lane + 1) < width) atomicMax(&shared.reach[lane], behind);
    }
    if (rank == 0 && n_live * (lane + 1) < width) atomicMax(&shared.reach[lane], NONE);
    __syncthreads();
    const unsigned reach = lane < width ? shared.reach[lane] : NONE;
    const unsigned farthest = ~(unsigned)warp_max((int)(~reach ^ 1u << 31)) ^ 1u << 31;
    const int many = 32 - __clz(__ballot_sync(ALL, reach == farthest));
    // Of children as far behind as that, those of the first configurations come first, if it is so exactly.
    const bool is_early = rank * many < width || farthest == NEAREST || farthest == FARTHEST;
    const bool is_kept = lane < n_mine && (behind < farthest || (behind == farthest && is_early));
    const unsigned kept = __ballot_sync(ALL, is_kept);
    if (kept) {
        int first = 0;
        if (lane == 0) first = atomicAdd(&shared.n_children, __popc(kept));
        first = __shfl_sync(ALL, first, 0);
        if (is_kept) {
            const int key = block.row(now, rank)[slot];
            block.children[first + lane] = {total + shared.gain[slot], key, (unsigned)(rank * SLOTS + slot)};
        }
    }
    __syncthreads();
}

// Rank the children that may live on, by counting; how many do. All warps come here.
__device__ inline int rank_children(Block &block, const Mine &mine, int now, int n_live) {
    Shared &shared = block.shared;
    const int width = block.task.width, lane = block.lane;
    keep_children(block, mine, now, n_live);
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
        if (lane == 0 && n_before < width) shared.order[n_before] = (int)child.number;
    }
    __syncthreads();
    if (block.rank == 0) {
        shared.reach[lane] = 0;
        if (lane == 0) shared.n_children = 0;
    }
    return min(n_children, width);
}
