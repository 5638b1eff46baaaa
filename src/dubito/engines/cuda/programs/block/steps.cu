// The kernel that steps all configurations of a beam inside a front, in one thread block.
//
// Most steps are plain: all configurations have the same best candidate, and no configuration's second-best child
// reaches the score of the last configuration's best child. Then every configuration picks that candidate, their order
// stays the same, and no two become equal; the warps only have to agree. Otherwise the children are ranked, and each
// rank computes its own.

constexpr int SOON = 32;  // Steps after which a list is drawn again that did not last.
constexpr int NOT_PLAIN = -1, TOO_SHORT = -2;

// Publish a configuration in shared memory.
__device__ inline void publish(Block &block, const Mine &mine) {
    Shared &shared = block.shared;
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) block.row(block.rank)[32 * at + block.lane] = mine.keys[at];
    if (block.lane == 0) {
        shared.lowest[block.rank] = mine.lowest;
        shared.picked[block.rank] = mine.picked;
        shared.total[block.rank] = mine.total;
    }
}

// Load the published configuration of a rank.
__device__ inline void resume(Block &block, Mine &mine, int rank) {
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) mine.keys[at] = block.row(rank)[32 * at + block.lane];
    mine.lowest = block.shared.lowest[rank];
    mine.picked = block.shared.picked[rank];
    mine.total = block.shared.total[rank];
}

// Recompute the lowest proposed key; the list is too short if it is below the list's threshold.
__device__ inline void find_lowest(Mine &mine, int width, int list_bar, int n_keys) {
    int under = max(list_bar, 0), over = n_keys, middle = under;
    mine.lowest = under;
    mine.is_short = false;
    while (true) {
        const int n_reaching = count_slots(reaching(mine, middle));
        if (n_reaching == width || (n_reaching > width && over - under <= 1)) {
            mine.lowest = middle;
            return;
        }
        if (n_reaching < width) {
            if (middle == under) {
                mine.is_short = list_bar >= 0;
                return;
            }
            over = middle;
        } else {
            under = middle;
        }
        middle = under + (over - under) / 2;
    }
}

// Propose one more candidate: the one with the highest key that is not proposed yet.
__device__ inline void propose_more(Mine &mine, int next, int list_bar) {
    next = warp_max(next);
    mine.is_short = next < list_bar;
    mine.lowest = max(next, 0);
}

// Turn a parent into its child: record the pick, and lower the keys.
__device__ inline void extend(Block &block, Mine &mine, int step, int parent, int slot, int list_bar) {
    const Task &task = block.task;
    const Shared &shared = block.shared;
    const int *low = block.low + slot * SLOTS + block.lane;
    const int lowest = mine.lowest;
    int height = 0, next = -1;
    bool is_lost = false;
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) {
        const bool is_it = 32 * at + block.lane == slot;
        const int before = mine.keys[at], after = is_it ? -1 : min(before, low[32 * at]);
        height = is_it ? before : height;
        is_lost = is_lost || (before >= lowest && after < lowest && !is_it);
        next = max(next, after < lowest ? after : -1);
        mine.keys[at] = after;
    }
    if (block.lane == (slot & 31))
        task.past[step * task.width + block.rank] = make_int4(parent, shared.listed[slot].place, height, 0);
    mine.total += shared.gain[slot];
    set_slot(mine.picked, slot);
    propose_more(mine, next, list_bar);
    if (__any_sync(ALL, is_lost)) {
        int n_proposed = count_slots(reaching(mine, mine.lowest));
        for (; n_proposed < task.width && !mine.is_short; ++n_proposed) {
            next = -1;
#pragma unroll
            for (int at = 0; at < PER_LANE; ++at) next = max(next, mine.keys[at] < mine.lowest ? mine.keys[at] : -1);
            propose_more(mine, next, list_bar);
        }
    }
}

// Build a list for the published configurations; returns its threshold. It is too short if proposals are missing.
__device__ inline int draw_list(Block &block, Mine &mine, int n_live, int step, bool by_rows) {
    Shared &shared = block.shared;
    if (threadIdx.x == 0) shared.short_at = -1;
    if (by_rows) tell_rows(block, n_live);
    const int level = collect(block, by_rows, n_live), list_bar = level == 0 ? *block.task.bar : level;
    give_slots(block);
    fill_list(block, n_live);
    if (block.rank < n_live) {
        resume(block, mine, block.rank);
        find_lowest(mine, block.task.width, list_bar, block.task.n_keys);
        if (block.lane == 0 && mine.is_short) shared.short_at = step;
    }
    __syncthreads();
    return list_bar;
}

// The slot that all configurations pick in a plain step; or that the step is not plain, or needs another list.
__device__ inline int agree(Block &block, Mine &mine, int n_live, int step) {
    Shared &shared = block.shared;
    const int width = block.task.width;
    if (block.rank < n_live) {
        mine.proposed = reaching(mine, mine.lowest);
        uint4 rest = mine.proposed;
        const int best = take_first(rest), next = take_first(rest);
        bool is_plain = best >= 0 && n_live == width && !mine.is_short;
        if (is_plain && next >= 0) is_plain = shared.gain[best] - shared.gain[next] > mine.ahead;
        if (threadIdx.x == 0) shared.leader = max(best, 0);
        if (block.lane == 0) shared.best[step & 1][block.rank] = is_plain ? best : mine.is_short ? TOO_SHORT : NOT_PLAIN;
    }
    __syncthreads();
    const int first = shared.best[step & 1][0], theirs = shared.best[step & 1][min(block.lane, n_live - 1)];
    if (__all_sync(ALL, first == theirs)) return first;
    return __any_sync(ALL, theirs == TOO_SHORT) ? TOO_SHORT : NOT_PLAIN;
}

// A step in which the children are ranked; returns the number of configurations.
__device__ inline int make_step(Block &block, Mine &mine, int n_live, int step, int list_bar) {
    const Shared &shared = block.shared;
    const int n_next = rank_children(block, mine, n_live);
    if (block.rank < n_next) {
        const int parent = shared.order[block.rank] / SLOTS, slot = shared.order[block.rank] % SLOTS;
        resume(block, mine, parent);
        mine.is_short = false;
        extend(block, mine, step, parent, slot, list_bar);
        mine.ahead = mine.total - shared.worth[n_next - 1];
    }
    return n_next;
}

extern "C" __global__ void __launch_bounds__(1024) make_block_steps(const __grid_constant__ Task task) {
    extern __shared__ uint4 memory[];
    Shared &shared = *(Shared *)memory;
    int *low = (int *)((char *)memory + SHARED_BYTES), *rows = low + SLOTS * SLOTS;
    Child *children = (Child *)((char *)rows + max((task.width * PITCH + 3) / 4 * 16, DRAWING_BYTES));
    const int lane = threadIdx.x % 32, rank = threadIdx.x / 32, n_warps = blockDim.x / 32;
    Block block = {task, shared, *(Drawing *)rows, low, rows, children, (unsigned char *)children, rank, lane, n_warps};
    Mine mine = {{-1, -1, -1, -1}, 0, make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0), 0, 0, true};
    if (rank < task.n_live) mine.total = task.totals[rank], mine.ahead = mine.total - task.totals[task.n_live - 1];
    if (rank == 0) shared.reach[lane] = 0, shared.n_children = 0;
    bring_own(block);
    int step = 0, n_live = task.n_live, list_bar = -1, drawn_at = 0, outcome = DONE;
    bool has_list = false, by_rows = false;
    while (step < task.limit && n_live > 0) {
        const int slot = agree(block, mine, n_live, step);
        if (slot >= 0) {
            if (rank < n_live) extend(block, mine, step, rank, slot, list_bar);
            ++step;
            continue;
        }
        if (rank < n_live) publish(block, mine);
        __syncthreads();
        if (slot == NOT_PLAIN) {
            n_live = make_step(block, mine, n_live, step, list_bar);
            ++step;
            continue;
        }
        if (has_list) leave_list(block, n_live);
        has_list = shared.n_own <= MOST_OWN;
        // A list by the keys after common picks is faster to build, and often good enough.
        by_rows = by_rows && step - drawn_at < SOON;
        for (bool is_short = has_list; is_short;) {
            __syncthreads();
            list_bar = draw_list(block, mine, n_live, step, by_rows);
            is_short = shared.short_at == step;
            outcome = !is_short ? DONE : list_bar > *task.bar ? STUCK : RAN_OUT;
            if (by_rows || outcome == RAN_OUT) break;
            by_rows = is_short;
        }
        drawn_at = step;
        if (!has_list) outcome = STUCK;
        if (outcome != DONE) break;
    }
    __syncthreads();
    if (rank < n_live) publish(block, mine);
    __syncthreads();
    if (has_list) leave_list(block, n_live);
    tell_rows(block, n_live);
    if (threadIdx.x < n_live) task.last_totals[threadIdx.x] = shared.total[threadIdx.x];
    if (threadIdx.x == 0) task.control[0] = step, task.control[1] = n_live, task.control[2] = outcome;
}
