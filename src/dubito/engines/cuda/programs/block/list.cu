// The short list: drawn from the front, and drawn again when a configuration may need others.

// Note who holds a place: all configurations, or some. One thread for each place.
__device__ void note_holders(Block &block, int place, unsigned holders, int n_live) {
    Shared &shared = block.shared;
    const unsigned everybody = n_live == 32 ? ALL : (1u << n_live) - 1u;
    if (holders == everybody) {
        shared.common[atomicAdd(&shared.n_common, 1)] = place;
    } else if (holders) {
        const int number = atomicAdd(&shared.n_own, 1);
        shared.own[number] = place;
        shared.holders[number] = holders;
    }
}

// Lower the base by picks that all configurations hold.
__device__ void lower_base(Block &block) {
    const Task &task = block.task;
    __syncthreads();
    for (int number = block.rank; number < block.shared.n_common; number += block.n_warps) {
        const int pick = block.shared.common[number];
        if (block.lane == 0) atomicMin(task.base + pick, -1);
        for (int at = task.starts[pick] + block.lane; at < task.starts[pick + 1]; at += 32)
            atomicMin(task.base + task.others[at], task.left[at]);
    }
    __syncthreads();
}

// What configurations bring along from before this front.
__device__ void bring_own(Block &block) {
    const Task &task = block.task;
    for (int at = threadIdx.x; at < task.n; at += blockDim.x) task.base[at] = task.start[at];
    if (threadIdx.x == 0) block.shared.n_own = block.shared.n_common = 0;
    __syncthreads();
    if (threadIdx.x < task.n_own) {
        unsigned holders = 0;
        for (int of = 0; of < task.n_live; ++of) holders |= (unsigned)(task.is_held[of * task.n_own + threadIdx.x] != 0) << of;
        note_holders(block, (int)task.own[threadIdx.x], holders, task.n_live);
    }
    lower_base(block);
}

// Leave a list: its picks are common by now, or some configurations' own.
__device__ void leave_list(Block &block, int now, int n_live) {
    Shared &shared = block.shared;
    if (threadIdx.x == 0) shared.n_own = shared.n_common = 0;
    __syncthreads();
    const int slot = threadIdx.x;
    if (slot < SLOTS && shared.place[slot] >= 0) {
        unsigned holders = 0;
        for (int of = 0; of < n_live; ++of) holders |= (word_of(shared.picked[now][of], slot >> 5) >> (slot & 31) & 1u) << of;
        note_holders(block, shared.place[slot], holders, n_live);
    }
    lower_base(block);
}

// The lowest key, if not under the bar, that no more than ``room`` candidates reach. ``base`` is shared.
__device__ int find_level(Block &block, const int *base, int room) {
    int turn = 0, under = max(*block.task.bar, 0), level = block.task.n_keys + 1, middle = under;
    while (true) {
        int count = 0;
        for (int at = threadIdx.x; at < block.task.n; at += blockDim.x) count += base[at] >= middle;
        count = __reduce_add_sync(ALL, count);
        if (block.lane == 0 && count) atomicAdd(&block.shared.count[turn], count);
        if (threadIdx.x == 0) block.shared.count[(turn + 1) % 3] = 0;
        __syncthreads();
        count = block.shared.count[turn];
        turn = (turn + 1) % 3;
        if (count <= room) {
            level = middle;
            if (middle == under || count >= room - 4) break;
        } else {
            under = middle;
        }
        if (level - under <= 1) break;
        middle = under + (level - under) / 2;
    }
    __syncthreads();
    if (threadIdx.x == 0) block.shared.count[0] = block.shared.count[1] = block.shared.count[2] = 0;
    return level;
}

// Collect the candidates from a level on, and the configurations' own; returns the level.
__device__ int collect(Block &block) {
    Shared &shared = block.shared;
    int *base = block.low;
    for (int at = threadIdx.x; at < block.task.n; at += blockDim.x) {
        base[at] = __ldcg(block.task.base + at);
        block.slot_of[at] = NOWHERE;
    }
    if (threadIdx.x == 0) shared.n_drawn = 0;
    __syncthreads();
    const int level = find_level(block, base, SLOTS - shared.n_own);
    for (int at = threadIdx.x; at < block.task.n; at += blockDim.x)
        if (base[at] >= level) shared.drawn[atomicAdd(&shared.n_drawn, 1)] = at;
    if (threadIdx.x < shared.n_own && base[shared.own[threadIdx.x]] < level)
        shared.drawn[atomicAdd(&shared.n_drawn, 1)] = shared.own[threadIdx.x];
    __syncthreads();
    return level;
}

// Give the candidates slots, those of the highest score first.
__device__ void give_slots(Block &block) {
    Shared &shared = block.shared;
    const int n_drawn = shared.n_drawn, here = threadIdx.x;
    if (here < SLOTS) {
        shared.drawn_gain[here] = here < n_drawn ? block.task.gains[shared.drawn[here]] : -1;
        shared.place[here] = -1;
        shared.gain[here] = 0;
    }
    __syncthreads();
    for (int number = block.rank; number < n_drawn; number += block.n_warps) {
        const Score gain = shared.drawn_gain[number];
        const int place = shared.drawn[number];
        int n_before = 0;
        for (int other = block.lane; other < n_drawn; other += 32)
            n_before += shared.drawn_gain[other] > gain || (shared.drawn_gain[other] == gain && shared.drawn[other] < place);
        n_before = __reduce_add_sync(ALL, n_before);
        if (block.lane == 0) {
            shared.place[n_before] = place;
            shared.gain[n_before] = gain;
            block.slot_of[place] = (unsigned char)n_before;
        }
    }
    __syncthreads();
}

// Fill in what the base, own picks and picks to come leave to the candidates on the list.
__device__ void fill_list(Block &block, int now, int n_live) {
    const Task &task = block.task;
    Shared &shared = block.shared;
    for (int at = threadIdx.x; at < SLOTS * SLOTS; at += blockDim.x) block.low[at] = NEVER;
    for (int at = threadIdx.x; at < n_live * SLOTS; at += blockDim.x) {
        const int place = shared.place[at % SLOTS];
        block.row(now, at / SLOTS)[at % SLOTS] = place < 0 ? -1 : __ldcg(task.base + place);
    }
    if (threadIdx.x < n_live) shared.picked[now][threadIdx.x] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    for (int slot = block.rank; slot < shared.n_drawn; slot += block.n_warps) {
        const int pick = shared.place[slot];
        for (int at = task.starts[pick] + block.lane; at < task.starts[pick + 1]; at += 32) {
            const int other = block.slot_of[task.others[at]];
            if (other != NOWHERE) block.low[slot * SLOTS + other] = task.left[at];
        }
    }
    for (int number = block.rank; number < shared.n_own; number += block.n_warps) {
        const int pick = shared.own[number], slot = block.slot_of[pick];
        const unsigned holders = shared.holders[number];
        if (block.lane < n_live && (holders >> block.lane & 1u)) {
            atomicMin(block.row(now, block.lane) + slot, -1);
            atomicOr((unsigned *)&shared.picked[now][block.lane] + (slot >> 5), 1u << (slot & 31));
        }
        for (int at = task.starts[pick] + block.lane; at < task.starts[pick + 1]; at += 32) {
            const int other = block.slot_of[task.others[at]];
            if (other == NOWHERE) continue;
            for (unsigned rest = holders; rest; rest &= rest - 1)
                atomicMin(block.row(now, __ffs(rest) - 1) + other, task.left[at]);
        }
    }
    __syncthreads();
}

// What configurations hold beyond common picks, as rows of keys over the whole front.
__device__ void tell_rows(Block &block, int n_live) {
    const Task &task = block.task;
    for (int at = threadIdx.x; at < task.n; at += blockDim.x) {
        const int key = __ldcg(task.base + at);
        for (int of = 0; of < n_live; ++of) task.keys[of * task.n + at] = key;
    }
    __syncthreads();
    for (int number = block.rank; number < block.shared.n_own; number += block.n_warps) {
        const int pick = block.shared.own[number];
        for (unsigned rest = block.shared.holders[number]; rest; rest &= rest - 1) {
            int *keys = task.keys + (__ffs(rest) - 1) * task.n;
            if (block.lane == 0) atomicMin(keys + pick, -1);
            for (int at = task.starts[pick] + block.lane; at < task.starts[pick + 1]; at += 32)
                atomicMin(keys + task.others[at], task.left[at]);
        }
    }
}
