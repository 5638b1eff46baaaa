// The kernel that steps all configurations of a beam inside a front, in one block.
//
// It does what `dubito.engines.cuda.programs.steps` does, whose keys it takes and whose order it keeps.
//
// Most steps are plain: every configuration's best child lives on, no other does, and they keep their order. So each
// configuration makes its best child at once, beside what it is now; if the others agree, after one meeting, that is
// the step. Otherwise the children are ranked, and each rank makes its own.

constexpr int SOON = 32;  // Steps after which a list is drawn again that did not last.

__device__ inline void load_keys(Mine &mine, const int *row, int lane) {
    const int4 four = *(const int4 *)(row + PER_LANE * lane);
    mine.keys[0] = four.x, mine.keys[1] = four.y, mine.keys[2] = four.z, mine.keys[3] = four.w;
}

// Take what configuration a rank has.
__device__ inline void resume(Block &block, Mine &mine, int now, int rank) {
    load_keys(mine, block.row(now, rank), block.lane);
    mine.lowest = block.shared.lowest[now][rank];
    mine.picked = block.shared.picked[now][rank];
    mine.total = block.shared.total[now][rank];
}

// The lowest key to be proposed, from scratch; false where that is under the list's bar.
__device__ inline bool find_lowest(Mine &mine, int width, int list_bar, int n_keys) {
    int under = max(list_bar, 0), over = n_keys, middle = under;
    mine.lowest = under;
    while (true) {
        const unsigned bits = reaching(mine, middle);
        int n_reaching = 0;
#pragma unroll
        for (int at = 0; at < PER_LANE; ++at) n_reaching += __popc(__ballot_sync(ALL, bits >> at & 1u));
        if (n_reaching == width || (n_reaching > width && over - under <= 1)) {
            mine.lowest = middle;
            return true;
        }
        if (n_reaching < width) {
            if (middle == under) return list_bar < 0;
            over = middle;
        } else {
            under = middle;
        }
        middle = under + (over - under) / 2;
    }
}

// Lower a configuration by a pick; false where it then would propose something under the list's bar.
__device__ inline bool extend(Block &block, Mine &mine, int slot, int list_bar) {
    const int4 lower = *(const int4 *)(block.low + slot * SLOTS + PER_LANE * block.lane);
    const unsigned was = reaching(mine, mine.lowest);
    mine.total += block.shared.gain[slot];
    mine.keys[0] = min(mine.keys[0], lower.x), mine.keys[1] = min(mine.keys[1], lower.y);
    mine.keys[2] = min(mine.keys[2], lower.z), mine.keys[3] = min(mine.keys[3], lower.w);
    const unsigned bit = slot >> 2 == block.lane ? 1u << (slot & 3) : 0;
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at)
        if (bit >> at & 1u) mine.keys[at] = -1;
    set_slot(mine.picked, slot);
    const unsigned lost = was & ~reaching(mine, mine.lowest);
    int n_lost = 1;
    if (__any_sync(ALL, lost & ~bit)) {
        n_lost = 0;
#pragma unroll
        for (int at = 0; at < PER_LANE; ++at) n_lost += __popc(__ballot_sync(ALL, lost >> at & 1u));
    }
    for (; n_lost > 0; --n_lost) {
        int next = -1;
#pragma unroll
        for (int at = 0; at < PER_LANE; ++at) next = max(next, mine.keys[at] < mine.lowest ? mine.keys[at] : -1);
        next = warp_max(next);
        if (next < list_bar) return false;
        mine.lowest = max(next, 0);
    }
    return true;
}

// Put a configuration where the others will find it, and its step on record.
__device__ inline void store(Block &block, const Mine &mine, int which, int step, int parent, int slot, int height) {
    Shared &shared = block.shared;
    const int rank = block.rank;
    *(int4 *)(block.row(which, rank) + PER_LANE * block.lane) =
        make_int4(mine.keys[0], mine.keys[1], mine.keys[2], mine.keys[3]);
    if (block.lane == 0) {
        shared.lowest[which][rank] = mine.lowest;
        shared.picked[which][rank] = mine.picked;
        shared.total[which][rank] = mine.total;
        block.task.past[step * block.task.width + rank] = make_int4(parent, shared.listed[slot].place, height, 0);
    }
}

// Draw a list for the configurations as they are; its bar. It is short if not all that they propose is on it.
__device__ inline int draw_list(Block &block, Mine &mine, int now, int n_live, int step, bool by_rows) {
    Shared &shared = block.shared;
    if (threadIdx.x == 0) shared.is_short = -1;
    if (by_rows) tell_rows(block, n_live);
    const int level = collect(block, by_rows, n_live), list_bar = level == 0 ? *block.task.bar : level;
    give_slots(block);
    fill_list(block, now, n_live);
    if (block.rank < n_live) {
        resume(block, mine, now, block.rank);
        const bool is_certain = find_lowest(mine, block.task.width, list_bar, block.task.n_keys);
        if (block.lane == 0) {
            shared.lowest[now][block.rank] = mine.lowest;
            if (!is_certain) shared.is_short = step;
        }
    }
    __syncthreads();
    return list_bar;
}

// One step, all warps together; how many configurations it leaves, and whether the list must be drawn again.
__device__ inline int make_step(Block &block, Mine &mine, int now, int n_live, int step, int list_bar, bool &is_short) {
    Shared &shared = block.shared;
    const int width = block.task.width, lane = block.lane, rank = block.rank;
    if (rank < n_live) {
        find_alive(block, mine, now);
        const int slot = publish_best(block, mine, now);
        if (slot >= 0 && n_live == width) {
            const int height = block.row(now, rank)[slot];
            if (!extend(block, mine, slot, list_bar) && lane == 0) shared.maybe_short[now] = step + 1;
            store(block, mine, 1 - now, step, rank, slot, height);
        }
    }
    __syncthreads();
    const Score first = shared.first[now][lane], next = shared.first[now][lane + 1];
    const bool is_plain = shared.second[now][lane] < shared.first[now][width - 1] && first != NO_CHILD &&
                          (first >= next || lane == width - 1);
    if (n_live == width && __all_sync(ALL, is_plain || lane >= width)) {
        is_short = shared.maybe_short[now] == step + 1;
        return width;
    }
    const int n_next = rank_children(block, mine, now, n_live);
    if (rank < n_next) {
        const int parent = shared.order[rank] / SLOTS, slot = shared.order[rank] % SLOTS;
        resume(block, mine, now, parent);
        const int height = block.row(now, parent)[slot];
        if (!extend(block, mine, slot, list_bar) && lane == 0) shared.is_short = step + 1;
        store(block, mine, 1 - now, step, parent, slot, height);
    }
    __syncthreads();
    is_short = shared.is_short == step + 1;
    return n_next;
}

extern "C" __global__ void __launch_bounds__(1024) make_block_steps(const __grid_constant__ Task task) {
    extern __shared__ uint4 memory[];
    Shared &shared = *(Shared *)memory;
    int *low = (int *)((char *)memory + SHARED_BYTES), *rows = low + SLOTS * SLOTS;
    Child *children = (Child *)((char *)rows + max(2 * task.width * PITCH * (int)sizeof(int), DRAWING_BYTES));
    const int lane = threadIdx.x % 32, rank = threadIdx.x / 32, n_warps = blockDim.x / 32;
    Block block = {task, shared, *(Drawing *)rows, low, rows, children, (unsigned char *)children, rank, lane, n_warps};
    Mine mine;
    if (rank == 0) {
        shared.reach[lane] = 0;
        shared.n_children = 0;
        shared.is_short = shared.maybe_short[0] = shared.maybe_short[1] = -1;
        if (lane < task.n_live) shared.total[0][lane] = task.totals[lane];
    }
    bring_own(block);
    int now = 0, step = 0, n_live = task.n_live, list_bar = -1, drawn_at = 0, outcome = DONE;
    bool has_list = false, by_rows = false, is_short = true;
    while (step < task.limit && n_live > 0) {
        if (is_short) {
            if (has_list) leave_list(block, now, n_live);
            has_list = shared.n_own <= MOST_OWN;
            if (!has_list) {
                outcome = STUCK;
                break;
            }
            // A list by what common picks leave is sooner drawn, and often good enough.
            by_rows = by_rows && step - drawn_at < SOON;
            do {
                __syncthreads();
                list_bar = draw_list(block, mine, now, n_live, step, by_rows);
                is_short = shared.is_short == step;
            } while (is_short && list_bar > *task.bar && !by_rows && (by_rows = true));
            drawn_at = step;
            if (is_short) {
                outcome = list_bar > *task.bar ? STUCK : RAN_OUT;
                break;
            }
        }
        n_live = make_step(block, mine, now, n_live, step, list_bar, is_short);
        now = 1 - now;
        ++step;
    }
    __syncthreads();
    if (has_list) leave_list(block, now, n_live);
    tell_rows(block, n_live);
    if (threadIdx.x < n_live) task.last_totals[threadIdx.x] = shared.total[now][threadIdx.x];
    if (threadIdx.x == 0) task.control[0] = step, task.control[1] = n_live, task.control[2] = outcome;
}
