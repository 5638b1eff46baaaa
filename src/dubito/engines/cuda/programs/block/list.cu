// The short list: built from the front, and built again when a configuration may need other candidates.

// Record which configurations have a pick, or that all of them have it. Executed by one thread per pick.
__device__ void note_holders(Block &block, const Pick &pick, unsigned holders, int n_live) {
    Shared &shared = block.shared;
    if (holders == ALL >> (32 - n_live)) {
        block.list_scratch.common[atomicAdd(&shared.n_common, 1)] = pick;
    } else if (holders) {
        const int number = atomicAdd(&shared.n_own, 1);
        shared.own[number] = pick;
        shared.holders[number] = holders;
    }
}

// Lower keys (n,) by a pick. Executed by a warp.
__device__ inline void lower_by(const Task &task, int *keys, const Pick &pick, int lane) {
    if (lane == 0) atomicMin(keys + pick.position, -1);
    for (int at = pick.begin + lane; at < pick.end; at += 32) atomicMin(keys + task.others[at], task.left[at]);
}

// Lower the base keys by the picks that all configurations have in common.
__device__ void lower_base(Block &block) {
    __syncthreads();
    for (int number = block.rank; number < block.shared.n_common; number += block.n_warps)
        lower_by(block.task, block.task.base, block.list_scratch.common[number], block.lane);
    __syncthreads();
}

__device__ inline Pick pick_at(const Task &task, int position) {
    return {position, task.starts[position], task.starts[position + 1]};
}

// Load the configurations' own picks, which were made in earlier fronts, and lower the base keys by common picks.
__device__ void load_own_picks(Block &block) {
    const Task &task = block.task;
    for (int at = threadIdx.x; at < task.n; at += blockDim.x) task.base[at] = task.start[at];
    if (threadIdx.x == 0) block.shared.n_own = block.shared.n_common = 0;
    __syncthreads();
    if (threadIdx.x < task.n_own) {
        unsigned holders = 0;
        for (int config = 0; config < task.n_live; ++config)
            holders |= (unsigned)(task.is_held[config * task.n_own + threadIdx.x] != 0) << config;
        note_holders(block, pick_at(task, (int)task.own[threadIdx.x]), holders, task.n_live);
    }
    lower_base(block);
}

// Close a list: record its picks as common picks or as picks of some configurations.
__device__ void close_list(Block &block, int n_live) {
    Shared &shared = block.shared;
    if (threadIdx.x == 0) shared.n_own = shared.n_common = 0;
    __syncthreads();
    const int slot = threadIdx.x;
    if (slot < SLOTS && shared.listed[slot].position >= 0) {
        unsigned holders = 0;
        for (int config = 0; config < n_live; ++config)
            holders |= (word_of(shared.picked[config], slot >> 5) >> (slot & 31) & 1u) << config;
        note_holders(block, shared.listed[slot], holders, n_live);
    }
    lower_base(block);
}

// Write the configurations to ``task.keys``, as rows of keys of the whole front.
__device__ void write_keys(Block &block, int n_live) {
    const Task &task = block.task;
    for (int at = threadIdx.x; at < task.n; at += blockDim.x) {
        const int key = __ldcg(task.base + at);
        for (int config = 0; config < n_live; ++config) task.keys[config * task.n + at] = key;
    }
    __syncthreads();
    for (int number = block.rank; number < block.shared.n_own; number += block.n_warps)
        for (unsigned rest = block.shared.holders[number]; rest; rest &= rest - 1)
            lower_by(task, task.keys + (__ffs(rest) - 1) * task.n, block.shared.own[number], block.lane);
    __syncthreads();
}

// Find the first bucket such that it and all later buckets hold at most ``capacity`` keys. Executed by a warp.
__device__ inline void find_bucket(Block &block, int under, int shift, int capacity) {
    constexpr int MINE = BUCKETS / 32;
    const int *count = block.list_scratch.count + MINE * block.lane;
    int sum = 0, above = block.shared.n_above, bucket = BUCKETS;
    for (int at = 0; at < MINE; ++at) sum += count[at];
    for (int lane = 31; lane > 0; --lane) {
        const int theirs = __shfl_sync(ALL, sum, lane);
        above += lane > block.lane ? theirs : 0;
    }
    int reached = above;
    for (int at = MINE - 1; at >= 0 && reached + count[at] <= capacity; --at) {
        reached += count[at];
        bucket = MINE * block.lane + at;
    }
    const int lowest = -warp_max(-bucket);
    __syncwarp();
    if (bucket == lowest && lowest < BUCKETS) block.shared.n_above = reached;
    if (block.lane == 0) block.shared.level = under + (lowest << shift);
}

// A key, at least the threshold, such that at most ``capacity`` candidates, but nearly as many, have at least this key.
// ``highest`` (n,) is in shared memory.
__device__ int find_level(Block &block, const int *highest, int capacity) {
    Shared &shared = block.shared;
    int under = max(*block.task.threshold_key, 0), top = block.task.n_keys;
    if (threadIdx.x == 0) shared.n_above = 0;
    while (true) {
        int shift = 0;
        while ((top - under) >> shift >= BUCKETS) ++shift;
        for (int at = threadIdx.x; at < BUCKETS; at += blockDim.x) block.list_scratch.count[at] = 0;
        __syncthreads();
        for (int at = threadIdx.x; at < block.task.n; at += blockDim.x)
            if (highest[at] >= under && highest[at] < top)
                atomicAdd(&block.list_scratch.count[(highest[at] - under) >> shift], 1);
        __syncthreads();
        if (block.rank == 0) find_bucket(block, under, shift, capacity);
        __syncthreads();
        const int level = shared.level;
        if (level == under || shift == 0 || 4 * shared.n_above >= 3 * capacity) return level;
        // One bucket has too many keys: divide it.
        top = level;
        under = level - (1 << shift);
        __syncthreads();
    }
}

// Collect the candidates with the highest keys, and the configurations' own picks; returns the lowest key. The key of a
// candidate is that after the common picks or, with ``by_rows``, the highest of the configurations in ``task.keys``.
__device__ int collect(Block &block, bool by_rows, int n_live) {
    const Task &task = block.task;
    Shared &shared = block.shared;
    int *highest = block.low;
    for (int at = threadIdx.x; at < task.n; at += blockDim.x) {
        int key = __ldcg(task.base + at);
        if (by_rows) {
            key = -1;
            for (int config = 0; config < n_live; ++config) key = max(key, __ldcg(task.keys + config * task.n + at));
        }
        highest[at] = key;
        block.slot_of[at] = NOWHERE;
    }
    if (threadIdx.x == 0) shared.n_chosen = 0;
    __syncthreads();
    const int level = find_level(block, highest, SLOTS - shared.n_own);
    for (int at = threadIdx.x; at < task.n; at += blockDim.x)
        if (highest[at] >= level) block.list_scratch.chosen[atomicAdd(&shared.n_chosen, 1)].position = at;
    if (threadIdx.x < shared.n_own && highest[shared.own[threadIdx.x].position] < level)
        block.list_scratch.chosen[atomicAdd(&shared.n_chosen, 1)].position = shared.own[threadIdx.x].position;
    __syncthreads();
    return level;
}

// Assign slots to the candidates by score, highest first.
__device__ void assign_slots(Block &block) {
    Shared &shared = block.shared;
    ListScratch &list_scratch = block.list_scratch;
    const int n_chosen = shared.n_chosen, here = threadIdx.x;
    if (here < SLOTS) {
        if (here < n_chosen) {
            list_scratch.chosen[here] = pick_at(block.task, list_scratch.chosen[here].position);
            list_scratch.gain[here] = block.task.gains[list_scratch.chosen[here].position];
        }
        shared.listed[here] = {-1, 0, 0};
        shared.gain[here] = 0;
    }
    __syncthreads();
    for (int number = block.rank; number < n_chosen; number += block.n_warps) {
        const Score gain = list_scratch.gain[number];
        const Pick pick = list_scratch.chosen[number];
        int n_before = 0;
        for (int first = 0; first < n_chosen; first += 32) {
            const int other = min(first + block.lane, n_chosen - 1);
            const Score theirs = list_scratch.gain[other];
            const bool is_before = theirs > gain || (theirs == gain && list_scratch.chosen[other].position < pick.position);
            n_before += __popc(__ballot_sync(ALL, is_before && first + block.lane < n_chosen));
        }
        if (block.lane == 0) {
            shared.listed[n_before] = pick;
            shared.gain[n_before] = gain;
            block.slot_of[pick.position] = (unsigned char)n_before;
        }
    }
    __syncthreads();
}

// Compute the keys of the listed candidates after each further pick. Two loads are started before the first is used.
__device__ void fill_low(Block &block) {
    const Task &task = block.task;
    for (int slot = block.rank; slot < block.shared.n_chosen; slot += 2 * block.n_warps) {
        const int next = slot + block.n_warps;
        Pick one = block.shared.listed[slot], two = {0, 0, 0};
        if (next < block.shared.n_chosen) two = block.shared.listed[next];
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

// Compute the keys of the listed candidates: after common picks and own picks, and after each further pick.
__device__ void fill_list(Block &block, int n_live) {
    const Task &task = block.task;
    Shared &shared = block.shared;
    for (int at = threadIdx.x; at < SLOTS * SLOTS; at += blockDim.x) block.low[at] = NEVER;
    const int position = threadIdx.x < SLOTS ? shared.listed[threadIdx.x].position : -1;
    if (threadIdx.x < SLOTS) {
        const int key = position < 0 ? -1 : __ldcg(task.base + position);
        for (int config = 0; config < n_live; ++config) block.row(config)[threadIdx.x] = key;
    }
    if (threadIdx.x < n_live) shared.picked[threadIdx.x] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    fill_low(block);
    for (int number = block.rank; number < shared.n_own; number += block.n_warps) {
        const Pick pick = shared.own[number];
        const int slot = block.slot_of[pick.position];
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
