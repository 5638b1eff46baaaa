// The short list: built from the front, and built again when a configuration may need other candidates.

// Record whether all configurations have a pick, or which of them. One thread per pick.
__device__ void note_holders(Block &block, const Pick &pick, unsigned holders, int n_live) {
    Shared &shared = block.shared;
    if (holders == ALL >> (32 - n_live)) {
        block.drawing.common[atomicAdd(&shared.n_common, 1)] = pick;
    } else if (holders) {
        const int number = atomicAdd(&shared.n_own, 1);
        shared.own[number] = pick;
        shared.holders[number] = holders;
    }
}

// Lower keys (n,) by a pick; executed by a warp.
__device__ inline void lower_by(const Task &task, int *keys, const Pick &pick, int lane) {
    if (lane == 0) atomicMin(keys + pick.place, -1);
    for (int at = pick.begin + lane; at < pick.end; at += 32) atomicMin(keys + task.others[at], task.left[at]);
}

// Lower the base by picks that all configurations have in common.
__device__ void lower_base(Block &block) {
    __syncthreads();
    for (int number = block.rank; number < block.shared.n_common; number += block.n_warps)
        lower_by(block.task, block.task.base, block.drawing.common[number], block.lane);
    __syncthreads();
}

__device__ inline Pick pick_at(const Task &task, int place) {
    return {place, task.starts[place], task.starts[place + 1]};
}

// The picks of configurations from before this front.
__device__ void bring_own(Block &block) {
    const Task &task = block.task;
    for (int at = threadIdx.x; at < task.n; at += blockDim.x) task.base[at] = task.start[at];
    if (threadIdx.x == 0) block.shared.n_own = block.shared.n_common = 0;
    __syncthreads();
    if (threadIdx.x < task.n_own) {
        unsigned holders = 0;
        for (int of = 0; of < task.n_live; ++of)
            holders |= (unsigned)(task.is_held[of * task.n_own + threadIdx.x] != 0) << of;
        note_holders(block, pick_at(task, (int)task.own[threadIdx.x]), holders, task.n_live);
    }
    lower_base(block);
}

// Close a list: its picks are now common, or belong to some configurations.
__device__ void leave_list(Block &block, int n_live) {
    Shared &shared = block.shared;
    if (threadIdx.x == 0) shared.n_own = shared.n_common = 0;
    __syncthreads();
    const int slot = threadIdx.x;
    if (slot < SLOTS && shared.listed[slot].place >= 0) {
        unsigned holders = 0;
        for (int of = 0; of < n_live; ++of)
            holders |= (word_of(shared.picked[of], slot >> 5) >> (slot & 31) & 1u) << of;
        note_holders(block, shared.listed[slot], holders, n_live);
    }
    lower_base(block);
}

// The configurations as rows of keys of the whole front.
__device__ void tell_rows(Block &block, int n_live) {
    const Task &task = block.task;
    for (int at = threadIdx.x; at < task.n; at += blockDim.x) {
        const int key = __ldcg(task.base + at);
        for (int of = 0; of < n_live; ++of) task.keys[of * task.n + at] = key;
    }
    __syncthreads();
    for (int number = block.rank; number < block.shared.n_own; number += block.n_warps)
        for (unsigned rest = block.shared.holders[number]; rest; rest &= rest - 1)
            lower_by(task, task.keys + (__ffs(rest) - 1) * task.n, block.shared.own[number], block.lane);
    __syncthreads();
}

// The first bucket such that it and all later ones hold at most ``room`` keys. Executed by a warp.
__device__ inline void find_bucket(Block &block, int under, int shift, int room) {
    constexpr int MINE = BUCKETS / 32;
    const int *count = block.drawing.count + MINE * block.lane;
    int sum = 0, above = block.shared.n_above, bucket = BUCKETS;
    for (int at = 0; at < MINE; ++at) sum += count[at];
    for (int lane = 31; lane > 0; --lane) {
        const int theirs = __shfl_sync(ALL, sum, lane);
        above += lane > block.lane ? theirs : 0;
    }
    int reached = above;
    for (int at = MINE - 1; at >= 0 && reached + count[at] <= room; --at) {
        reached += count[at];
        bucket = MINE * block.lane + at;
    }
    const int lowest = -warp_max(-bucket);
    __syncwarp();
    if (bucket == lowest && lowest < BUCKETS) block.shared.n_above = reached;
    if (block.lane == 0) block.shared.level = under + (lowest << shift);
}

// A key, not below the threshold, that at most ``room`` candidates reach, and nearly as many. ``highest`` is shared.
__device__ int find_level(Block &block, const int *highest, int room) {
    Shared &shared = block.shared;
    int under = max(*block.task.bar, 0), top = block.task.n_keys;
    if (threadIdx.x == 0) shared.n_above = 0;
    while (true) {
        int shift = 0;
        while ((top - under) >> shift >= BUCKETS) ++shift;
        for (int at = threadIdx.x; at < BUCKETS; at += blockDim.x) block.drawing.count[at] = 0;
        __syncthreads();
        for (int at = threadIdx.x; at < block.task.n; at += blockDim.x)
            if (highest[at] >= under && highest[at] < top)
                atomicAdd(&block.drawing.count[(highest[at] - under) >> shift], 1);
        __syncthreads();
        if (block.rank == 0) find_bucket(block, under, shift, room);
        __syncthreads();
        const int level = shared.level;
        if (level == under || shift == 0 || 4 * shared.n_above >= 3 * room) return level;
        // One bucket has too many keys: divide it.
        top = level;
        under = level - (1 << shift);
        __syncthreads();
    }
}

// Collect the candidates from a level on and the configurations' own picks; returns the level. Candidates are compared
// by their key after the common picks, or by their highest key over the configurations in ``task.keys``.
__device__ int collect(Block &block, bool by_rows, int n_live) {
    const Task &task = block.task;
    Shared &shared = block.shared;
    int *highest = block.low;
    for (int at = threadIdx.x; at < task.n; at += blockDim.x) {
        int key = __ldcg(task.base + at);
        if (by_rows) {
            key = -1;
            for (int of = 0; of < n_live; ++of) key = max(key, __ldcg(task.keys + of * task.n + at));
        }
        highest[at] = key;
        block.slot_of[at] = NOWHERE;
    }
    if (threadIdx.x == 0) shared.n_drawn = 0;
    __syncthreads();
    const int level = find_level(block, highest, SLOTS - shared.n_own);
    for (int at = threadIdx.x; at < task.n; at += blockDim.x)
        if (highest[at] >= level) block.drawing.drawn[atomicAdd(&shared.n_drawn, 1)].place = at;
    if (threadIdx.x < shared.n_own && highest[shared.own[threadIdx.x].place] < level)
        block.drawing.drawn[atomicAdd(&shared.n_drawn, 1)].place = shared.own[threadIdx.x].place;
    __syncthreads();
    return level;
}

// Assign slots to the candidates by score, highest first.
__device__ void give_slots(Block &block) {
    Shared &shared = block.shared;
    Drawing &drawing = block.drawing;
    const int n_drawn = shared.n_drawn, here = threadIdx.x;
    if (here < SLOTS) {
        if (here < n_drawn) {
            drawing.drawn[here] = pick_at(block.task, drawing.drawn[here].place);
            drawing.gain[here] = block.task.gains[drawing.drawn[here].place];
        }
        shared.listed[here] = {-1, 0, 0};
        shared.gain[here] = 0;
    }
    __syncthreads();
    for (int number = block.rank; number < n_drawn; number += block.n_warps) {
        const Score gain = drawing.gain[number];
        const Pick pick = drawing.drawn[number];
        int n_before = 0;
        for (int first = 0; first < n_drawn; first += 32) {
            const int other = min(first + block.lane, n_drawn - 1);
            const Score theirs = drawing.gain[other];
            const bool is_before = theirs > gain || (theirs == gain && drawing.drawn[other].place < pick.place);
            n_before += __popc(__ballot_sync(ALL, is_before && first + block.lane < n_drawn));
        }
        if (block.lane == 0) {
            shared.listed[n_before] = pick;
            shared.gain[n_before] = gain;
            block.slot_of[pick.place] = (unsigned char)n_before;
        }
    }
    __syncthreads();
}

// The keys of all candidates on the list after each further pick. Two loads are started before the first is used.
__device__ void fill_low(Block &block) {
    const Task &task = block.task;
    for (int slot = block.rank; slot < block.shared.n_drawn; slot += 2 * block.n_warps) {
        const int next = slot + block.n_warps;
        Pick one = block.shared.listed[slot], two = {0, 0, 0};
        if (next < block.shared.n_drawn) two = block.shared.listed[next];
        one.begin += block.lane;
        two.begin += block.lane;
        for (; one.begin < one.end || two.begin < two.end; one.begin += 32, two.begin += 32) {
            const bool has_one = one.begin < one.end, has_two = two.begin < two.end;
            const int other = has_one ? task.others[one.begin] : 0, key = has_one ? task.left[one.begin] : 0;
            const int other_two = has_two ? task.others[two.begin] : 0, key_two = has_two ? task.left[two.begin] : 0;
            const int to = block.slot_of[other], to_two = block.slot_of[other_two];
            if (has_one && to != NOWHERE) block.low[slot * SLOTS + to] = key;
            if (has_two && to_two != NOWHERE) block.low[next * SLOTS + to_two] = key_two;
        }
    }
}

// Compute the keys of candidates on the list after common picks, own picks and further picks.
__device__ void fill_list(Block &block, int n_live) {
    const Task &task = block.task;
    Shared &shared = block.shared;
    for (int at = threadIdx.x; at < SLOTS * SLOTS; at += blockDim.x) block.low[at] = NEVER;
    const int mine = threadIdx.x < SLOTS ? shared.listed[threadIdx.x].place : -1;
    if (threadIdx.x < SLOTS) {
        const int key = mine < 0 ? -1 : __ldcg(task.base + mine);
        for (int of = 0; of < n_live; ++of) block.row(of)[threadIdx.x] = key;
    }
    if (threadIdx.x < n_live) shared.picked[threadIdx.x] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    fill_low(block);
    for (int number = block.rank; number < shared.n_own; number += block.n_warps) {
        const Pick pick = shared.own[number];
        const int slot = block.slot_of[pick.place];
        const unsigned holders = shared.holders[number];
        if (block.lane < n_live && (holders >> block.lane & 1u)) {
            atomicMin(block.row(block.lane) + slot, -1);
            atomicOr((unsigned *)&shared.picked[block.lane] + (slot >> 5), 1u << (slot & 31));
        }
        for (int at = pick.begin + block.lane; at < pick.end; at += 32) {
            const int other = block.slot_of[task.others[at]];
            if (other == NOWHERE) continue;
            for (unsigned rest = holders; rest; rest &= rest - 1)
                atomicMin(block.row(__ffs(rest) - 1) + other, task.left[at]);
        }
    }
    __syncthreads();
}
