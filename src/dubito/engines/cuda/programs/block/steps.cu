// The kernel that steps all configurations of a beam inside a front, in one block.
//
// It does what `dubito.engines.cuda.programs.steps` does, whose keys it takes and whose order it keeps: children by
// score, then by the parent's rank, then by priority; of children that are the same set only the first. Where two
// configurations are one pick apart, the later one must not take the other's odd pick if the other may take its own.
//
// Most steps are plain: every configuration's best child lives on and no other does. Otherwise the children are first
// thinned out: if each of the first width / m configurations has m children no farther behind than some distance, then
// no child farther behind lives on. The best such distance over all m leaves few, and these are ranked by counting.

constexpr Score NO_CHILD = -(1LL << 62);

// How far a child stays behind, as bits that compare alike; rounded, so that it never tells two apart the wrong way.
__device__ inline unsigned distance(Score ceiling, Score worth) { return __float_as_uint((float)(ceiling - worth)); }

// A configuration at hand: its keys and scores in a lane's slots, its lowest key proposed, its picks and its score.
struct Mine {
    int keys[PER_LANE];
    Score gains[PER_LANE];
    int lowest;
    uint4 picked;
    Score total;
    unsigned alive;  // Bits of the lane's slots that it proposes, and nobody before it.
};

__device__ inline void load_keys(Mine &mine, const int *row, int lane) {
    const int4 four = *(const int4 *)(row + PER_LANE * lane);
    mine.keys[0] = four.x, mine.keys[1] = four.y, mine.keys[2] = four.z, mine.keys[3] = four.w;
}

// Move the lowest key proposed down until so many are; false where it would pass under the list's bar.
__device__ inline bool find_lowest(Mine &mine, int width, int list_bar) {
    int n_proposed = 0;
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) n_proposed += mine.keys[at] >= mine.lowest;
    n_proposed = __reduce_add_sync(ALL, n_proposed);
    for (; n_proposed < width; ++n_proposed) {
        int next = -1;
#pragma unroll
        for (int at = 0; at < PER_LANE; ++at) next = max(next, mine.keys[at] < mine.lowest ? mine.keys[at] : -1);
        next = __reduce_max_sync(ALL, next);
        if (next < list_bar) return false;
        mine.lowest = max(next, 0);
        if (next < 0) break;
    }
    return true;
}

// Which of a configuration's candidates it proposes, less those by which it would become what an earlier one becomes.
__device__ inline void find_alive(Block &block, Mine &mine, int now) {
    const Shared &shared = block.shared;
    mine.alive = 0;
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) mine.alive |= (unsigned)(mine.keys[at] >= mine.lowest) << at;
    uint4 out = make_uint4(0, 0, 0, 0);
    bool is_out = false;
    if (block.lane < block.rank) {
        const uint4 other = shared.picked[now][block.lane], odd = without(other, mine.picked);
        if (count_slots(odd) == 1) {
            const int theirs = only_slot(odd), ours = only_slot(without(mine.picked, other));
            is_out = block.row(now, block.lane)[ours] >= shared.lowest[now][block.lane] &&
                     block.row(now, block.rank)[theirs] >= mine.lowest;
            if (is_out) out = odd;
        }
    }
    if (__any_sync(ALL, is_out)) {
        out.x = __reduce_or_sync(ALL, out.x), out.y = __reduce_or_sync(ALL, out.y);
        out.z = __reduce_or_sync(ALL, out.z), out.w = __reduce_or_sync(ALL, out.w);
        mine.alive &= ~of_lane(out, block.lane);
    }
}

// Publish a configuration's best child and how far behind its second is; returns the best child's slot.
__device__ inline int publish_lead(Block &block, const Mine &mine, Score ceiling) {
    const unsigned lanes = __ballot_sync(ALL, mine.alive != 0), after = mine.alive & (mine.alive - 1);
    Lead &lead = block.shared.lead[block.rank];
    if (lanes == 0) {
        if (block.lane == 0) lead.worth = NO_CHILD, lead.first = lead.second = NONE;
        return 0;
    }
    const int leader = __ffs(lanes) - 1, next = __ffs(lanes & (lanes - 1)) - 1;
    const unsigned both = __shfl_sync(ALL, mine.alive, leader);
    const bool has_two = (both & (both - 1)) != 0;
    Score first = mine.gains[3], second = mine.gains[3];
#pragma unroll
    for (int at = PER_LANE - 2; at >= 0; --at) {
        first = mine.alive >> at & 1u ? mine.gains[at] : first;
        second = after >> at & 1u ? mine.gains[at] : second;
    }
    if (block.lane == leader) {
        lead.worth = mine.total + first;
        lead.first = distance(ceiling, mine.total + first);
        if (has_two || next < 0) lead.second = has_two ? distance(ceiling, mine.total + second) : NONE;
    }
    if (!has_two && block.lane == next) lead.second = distance(ceiling, mine.total + first);
    return PER_LANE * leader + __ffs(both) - 1;
}

// Thin the children out, and rank those that are left; how many live on. All warps come here.
__device__ inline int rank_children(Block &block, const Mine &mine, Score ceiling, int n_live) {
    Shared &shared = block.shared;
    const int width = block.task.width, lane = block.lane, rank = block.rank;
    const unsigned before = (1u << lane) - 1u;
    unsigned behind[PER_LANE];
    int number[PER_LANE], n_mine = 0;
    if (rank < n_live) {
        int n_before = 0;
#pragma unroll
        for (int at = 0; at < PER_LANE; ++at) {
            const unsigned lanes = __ballot_sync(ALL, mine.alive >> at & 1u);
            n_before += __popc(lanes & before), n_mine += __popc(lanes);
        }
#pragma unroll
        for (int at = 0; at < PER_LANE; ++at) {
            number[at] = n_before + __popc(mine.alive & ((1u << at) - 1u));
            behind[at] = distance(ceiling, mine.total + mine.gains[at]);
            if ((mine.alive >> at & 1u) && rank * (number[at] + 1) < width) atomicMax(&shared.reach[number[at]], behind[at]);
        }
        if (lane >= n_mine && rank * (lane + 1) < width) atomicMax(&shared.reach[lane], NONE);
    }
    if (rank == 0 && n_live * (lane + 1) < width) atomicMax(&shared.reach[lane], NONE);
    __syncthreads();
    const unsigned reach = lane < width ? shared.reach[lane] : NONE, farthest = __reduce_min_sync(ALL, reach);
    const int many = 32 - __clz(__ballot_sync(ALL, reach == farthest));
    if (rank < n_live) {
        unsigned kept = 0;
#pragma unroll
        for (int at = 0; at < PER_LANE; ++at) {
            const bool is_near = behind[at] < farthest || (behind[at] == farthest && rank * many < width);
            kept |= (unsigned)((mine.alive >> at & 1u) && is_near) << at;
        }
        const int n_kept = __reduce_add_sync(ALL, __popc(kept));
        int first = 0;
        if (lane == 0 && n_kept) first = atomicAdd(&shared.n_children, n_kept);
        first = __shfl_sync(ALL, first, 0);
#pragma unroll
        for (int at = 0; at < PER_LANE; ++at)
            if (kept >> at & 1u) {
                Child &child = block.children[first + number[at]];
                child.worth = mine.total + mine.gains[at];
                child.key = mine.keys[at];
                child.number = rank * SLOTS + PER_LANE * lane + at;
            }
    }
    __syncthreads();
    const int n_children = shared.n_children;
    for (int at = rank; at < n_children; at += block.n_warps) {
        const Child child = block.children[at];
        const int parent = child.number / SLOTS;
        int n_before = 0;
        for (int other = lane; other < n_children; other += 32) {
            const Child their = block.children[other];
            const int their_parent = their.number / SLOTS;
            n_before += their.worth > child.worth ||
                        (their.worth == child.worth &&
                         (their_parent < parent || (their_parent == parent && their.key > child.key)));
        }
        n_before = __reduce_add_sync(ALL, n_before);
        if (lane == 0 && n_before < width) shared.order[n_before] = child.number;
    }
    __syncthreads();
    if (rank == 0) {
        shared.reach[lane] = 0;
        if (lane == 0) shared.n_children = 0;
    }
    return min(n_children, width);
}

// Make the configuration of a rank out of its parent, and store it where the others will find it.
__device__ inline void adopt(Block &block, Mine &mine, int now, int parent, int slot, int step, int list_bar) {
    Shared &shared = block.shared;
    const Task &task = block.task;
    const int lane = block.lane, rank = block.rank, height = block.row(now, parent)[slot];
    const int4 lower = *(const int4 *)(block.low + slot * SLOTS + PER_LANE * lane);
    if (parent != rank) {
        load_keys(mine, block.row(now, parent), lane);
        mine.lowest = shared.lowest[now][parent];
        mine.picked = shared.picked[now][parent];
        mine.total = shared.total[now][parent];
    }
    mine.keys[0] = min(mine.keys[0], lower.x), mine.keys[1] = min(mine.keys[1], lower.y);
    mine.keys[2] = min(mine.keys[2], lower.z), mine.keys[3] = min(mine.keys[3], lower.w);
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at)
        if (PER_LANE * lane + at == slot) mine.keys[at] = -1;
    *(int4 *)(block.row(1 - now, rank) + PER_LANE * lane) = make_int4(mine.keys[0], mine.keys[1], mine.keys[2], mine.keys[3]);
    mine.total += shared.gain[slot];
    set_slot(mine.picked, slot);
    const bool is_certain = find_lowest(mine, task.width, list_bar);
    if (lane == 0) {
        shared.lowest[1 - now][rank] = mine.lowest;
        shared.picked[1 - now][rank] = mine.picked;
        shared.total[1 - now][rank] = mine.total;
        if (!is_certain) shared.short_at = step + 1;
        const int made = step * task.width + rank;
        task.parents[made] = parent;
        task.picks[made] = shared.place[slot];
        task.heights[made] = height;
    }
}

// Draw a list for the configurations as they are; its bar, and whether all they propose is on it.
__device__ inline int draw_list(Block &block, Mine &mine, int now, int n_live, int step) {
    Shared &shared = block.shared;
    const int level = collect(block), bar = *block.task.bar, list_bar = level == 0 ? bar : level;
    give_slots(block);
    fill_list(block, now, n_live);
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) mine.gains[at] = shared.gain[PER_LANE * block.lane + at];
    if (block.rank < n_live) {
        load_keys(mine, block.row(now, block.rank), block.lane);
        mine.lowest = NEVER;
        mine.picked = shared.picked[now][block.rank];
        mine.total = shared.total[now][block.rank];
        const bool is_certain = find_lowest(mine, block.task.width, list_bar);
        if (block.lane == 0) {
            shared.lowest[now][block.rank] = mine.lowest;
            if (!is_certain) shared.short_at = step;
        }
    }
    __syncthreads();
    return list_bar;
}

// One step, all warps together; how many configurations it leaves.
__device__ inline int make_step(Block &block, Mine &mine, int now, int n_live, int step, int list_bar) {
    Shared &shared = block.shared;
    const int width = block.task.width, lane = block.lane, rank = block.rank;
    const Score ceiling = shared.total[now][0] + shared.gain[0];
    int parent = rank, slot = 0, n_next = width;
    if (rank < n_live) {
        find_alive(block, mine, now);
        slot = publish_lead(block, mine, ceiling);
    }
    __syncthreads();
    const Lead lead = shared.lead[lane], next = shared.lead[lane + 1];
    const unsigned farthest = __reduce_max_sync(ALL, lane < n_live ? lead.first : 0);
    if (n_live == width && farthest != NONE && __all_sync(ALL, lane >= n_live || lead.second > farthest)) {
        if (!__all_sync(ALL, lane >= n_live - 1 || lead.worth >= next.worth)) {
            if (rank < n_live) {
                const Score worth = shared.lead[rank].worth;
                const bool is_before = lane < n_live && (lead.worth > worth || (lead.worth == worth && lane < rank));
                const int n_before = __popc(__ballot_sync(ALL, is_before));
                if (lane == 0) shared.order[n_before] = rank * SLOTS + slot;
            }
            __syncthreads();
            parent = -1;
        }
    } else {
        n_next = rank_children(block, mine, ceiling, n_live);
        parent = -1;
    }
    if (rank < n_next) {
        if (parent < 0) parent = shared.order[rank] / SLOTS, slot = shared.order[rank] % SLOTS;
        adopt(block, mine, now, parent, slot, step, list_bar);
    }
    __syncthreads();
    return n_next;
}

extern "C" __global__ void __launch_bounds__(1024) make_block_steps(const __grid_constant__ Task task) {
    extern __shared__ uint4 memory[];
    Shared &shared = *(Shared *)memory;
    int *low = (int *)((char *)memory + SHARED_BYTES), *rows = low + SLOTS * SLOTS;
    Child *children = (Child *)(rows + 2 * task.width * PITCH);
    unsigned char *slot_of = (unsigned char *)children;  // Needed while a list is drawn, and these in between.
    const int rank = threadIdx.x / 32;
    Block block = {task, shared, low, rows, children, slot_of, rank, (int)threadIdx.x % 32, (int)blockDim.x / 32};
    Mine mine;
    if (threadIdx.x < WIDEST) {
        shared.reach[threadIdx.x] = 0;
        if (threadIdx.x < 3) shared.count[threadIdx.x] = 0;
        if (threadIdx.x == 0) shared.n_children = 0, shared.short_at = 0;
        if (threadIdx.x < task.n_live) shared.total[0][threadIdx.x] = task.totals[threadIdx.x];
    }
    bring_own(block);
    int now = 0, step = 0, n_live = task.n_live, list_bar = -1, outcome = DONE;
    bool has_list = false;
    while (step < task.limit && n_live > 0) {
        if (shared.short_at == step) {
            if (has_list) leave_list(block, now, n_live);
            has_list = false;
            if (shared.n_own > MOST_OWN) {
                outcome = STUCK;
                break;
            }
            __syncthreads();
            if (threadIdx.x == 0) shared.short_at = -1;
            list_bar = draw_list(block, mine, now, n_live, step);
            has_list = true;
            if (shared.short_at == step) {
                outcome = list_bar > *task.bar ? STUCK : RAN_OUT;
                break;
            }
        }
        n_live = make_step(block, mine, now, n_live, step, list_bar);
        now = 1 - now;
        ++step;
    }
    __syncthreads();
    if (has_list) leave_list(block, now, n_live);
    tell_rows(block, n_live);
    if (threadIdx.x < n_live) task.last_totals[threadIdx.x] = shared.total[now][threadIdx.x];
    if (threadIdx.x == 0) task.control[0] = step, task.control[1] = n_live, task.control[2] = outcome;
}
