// The kernel that steps all configurations of a beam inside a front, in one thread block.
//
// Most steps are plain: all configurations have the same best candidate, and no configuration's second-best child
// reaches the score of the last configuration's best child. Then every configuration picks that candidate, their order
// stays the same, and no two become equal, so the warps only compare their best candidates. Otherwise the children are
// ranked, and each warp computes one of them.

constexpr int SHORT_LIVED = 32;  // If a list by rows lasts fewer steps than this, the next list is by rows, too.
constexpr int NOT_PLAIN = -1, TOO_SHORT = -2;

// Publish a configuration in shared memory.
__device__ inline void publish(Block &block, const WarpState &state) {
    Shared &shared = block.shared;
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) block.row(block.rank)[32 * at + block.lane] = state.keys[at];
    if (block.lane == 0) {
        shared.lowest[block.rank] = state.lowest;
        shared.picked[block.rank] = state.picked;
        shared.total[block.rank] = state.total;
    }
}

// Load the published configuration of a rank.
__device__ inline void resume(Block &block, WarpState &state, int rank) {
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) state.keys[at] = block.row(rank)[32 * at + block.lane];
    state.lowest = block.shared.lowest[rank];
    state.picked = block.shared.picked[rank];
    state.total = block.shared.total[rank];
}

// Compute the lowest proposed key again. The list is too short if this key is below the threshold of the list.
__device__ inline void find_lowest(WarpState &state, int width, int list_threshold, int n_keys) {
    int under = max(list_threshold, 0), over = n_keys, middle = under;
    state.lowest = under;
    state.is_short = false;
    while (true) {
        const int n_reaching = count_slots(reaching(state, middle));
        if (n_reaching == width || (n_reaching > width && over - under <= 1)) {
            state.lowest = middle;
            return;
        }
        if (n_reaching < width) {
            if (middle == under) {
                state.is_short = list_threshold >= 0;
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
__device__ inline void propose_more(WarpState &state, int next, int list_threshold) {
    next = warp_max(next);
    state.is_short = next < list_threshold;
    state.lowest = max(next, 0);
}

// Replace a parent by its child: record the pick, and lower the keys.
__device__ inline void extend(Block &block, WarpState &state, int step, int parent, int slot, int list_threshold) {
    const Task &task = block.task;
    const Shared &shared = block.shared;
    const int *low = block.low + slot * SLOTS + block.lane;
    const int lowest = state.lowest;
    int priority = 0, next = -1;
    bool is_lost = false;
#pragma unroll
    for (int at = 0; at < PER_LANE; ++at) {
        const bool is_pick = 32 * at + block.lane == slot;
        const int before = state.keys[at], after = is_pick ? -1 : min(before, low[32 * at]);
        priority = is_pick ? before : priority;
        is_lost = is_lost || (before >= lowest && after < lowest && !is_pick);
        next = max(next, after < lowest ? after : -1);
        state.keys[at] = after;
    }
    if (block.lane == (slot & 31))
        task.records[step * task.width + block.rank] = make_int4(parent, shared.listed[slot].position, priority, 0);
    state.total += shared.gain[slot];
    set_slot(state.picked, slot);
    propose_more(state, next, list_threshold);
    if (__any_sync(ALL, is_lost)) {
        int n_proposed = count_slots(reaching(state, state.lowest));
        for (; n_proposed < task.width && !state.is_short; ++n_proposed) {
            next = -1;
#pragma unroll
            for (int at = 0; at < PER_LANE; ++at) next = max(next, state.keys[at] < state.lowest ? state.keys[at] : -1);
            propose_more(state, next, list_threshold);
        }
    }
}

// Build a list for the published configurations; returns its threshold. The list is too short if proposals are missing.
__device__ inline int build_list(Block &block, WarpState &state, int n_live, int step, bool by_rows) {
    Shared &shared = block.shared;
    if (threadIdx.x == 0) shared.short_at = -1;
    if (by_rows) write_keys(block, n_live);
    const int level = collect(block, by_rows, n_live), list_threshold = level == 0 ? *block.task.threshold_key : level;
    assign_slots(block);
    fill_list(block, n_live);
    if (block.rank < n_live) {
        resume(block, state, block.rank);
        find_lowest(state, block.task.width, list_threshold, block.task.n_keys);
        if (block.lane == 0 && state.is_short) shared.short_at = step;
    }
    __syncthreads();
    return list_threshold;
}

// The slot that all configurations pick if the step is plain; otherwise NOT_PLAIN, or TOO_SHORT if a list must be built.
__device__ inline int find_common_best(Block &block, WarpState &state, int n_live, int step) {
    Shared &shared = block.shared;
    const int width = block.task.width;
    if (block.rank < n_live) {
        state.proposed = reaching(state, state.lowest);
        uint4 rest = state.proposed;
        const int best = take_first(rest), next = take_first(rest);
        bool is_plain = best >= 0 && n_live == width && !state.is_short;
        if (is_plain && next >= 0) is_plain = shared.gain[best] - shared.gain[next] > state.ahead;
        if (threadIdx.x == 0) shared.leader = max(best, 0);
        if (block.lane == 0) shared.best[step & 1][block.rank] = is_plain ? best : state.is_short ? TOO_SHORT : NOT_PLAIN;
    }
    __syncthreads();
    const int first = shared.best[step & 1][0], theirs = shared.best[step & 1][min(block.lane, n_live - 1)];
    if (__all_sync(ALL, first == theirs)) return first;
    return __any_sync(ALL, theirs == TOO_SHORT) ? TOO_SHORT : NOT_PLAIN;
}

// A step in which the children are ranked; returns the number of configurations.
__device__ inline int make_step(Block &block, WarpState &state, int n_live, int step, int list_threshold) {
    const Shared &shared = block.shared;
    const int n_next = rank_children(block, state, n_live);
    if (block.rank < n_next) {
        const int parent = shared.order[block.rank] / SLOTS, slot = shared.order[block.rank] % SLOTS;
        resume(block, state, parent);
        state.is_short = false;
        extend(block, state, step, parent, slot, list_threshold);
        state.ahead = state.total - shared.score[n_next - 1];
    }
    return n_next;
}

extern "C" __global__ void __launch_bounds__(1024) make_block_steps(const __grid_constant__ Task task) {
    extern __shared__ uint4 memory[];
    Shared &shared = *(Shared *)memory;
    int *low = (int *)((char *)memory + SHARED_BYTES), *rows = low + SLOTS * SLOTS;
    Child *children = (Child *)((char *)rows + max((task.width * PITCH + 3) / 4 * 16, LIST_BYTES));
    const int lane = threadIdx.x % 32, rank = threadIdx.x / 32, n_warps = blockDim.x / 32;
    Block block = {task, shared, *(ListScratch *)rows, low, rows, children, (unsigned char *)children, rank, lane, n_warps};
    WarpState state = {{-1, -1, -1, -1}, 0, make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0), 0, 0, true};
    if (rank < task.n_live) state.total = task.totals[rank], state.ahead = state.total - task.totals[task.n_live - 1];
    if (rank == 0) shared.distances[lane] = 0, shared.n_children = 0;
    load_own_picks(block);
    int step = 0, n_live = task.n_live, list_threshold = -1, built_at = 0, outcome = DONE;
    bool has_list = false, by_rows = false;
    while (step < task.limit && n_live > 0) {
        const int slot = find_common_best(block, state, n_live, step);
        if (slot >= 0) {
            if (rank < n_live) extend(block, state, step, rank, slot, list_threshold);
            ++step;
            continue;
        }
        if (rank < n_live) publish(block, state);
        __syncthreads();
        if (slot == NOT_PLAIN) {
            n_live = make_step(block, state, n_live, step, list_threshold);
            ++step;
            continue;
        }
        if (has_list) close_list(block, n_live);
        has_list = shared.n_own <= MOST_OWN;
        // A list by the keys after common picks is faster to build, and often sufficient.
        by_rows = by_rows && step - built_at < SHORT_LIVED;
        for (bool is_short = has_list; is_short;) {
            __syncthreads();
            list_threshold = build_list(block, state, n_live, step, by_rows);
            is_short = shared.short_at == step;
            outcome = !is_short ? DONE : list_threshold > *task.threshold_key ? STUCK : RAN_OUT;
            if (by_rows || outcome == RAN_OUT) break;
            by_rows = is_short;
        }
        built_at = step;
        if (!has_list) outcome = STUCK;
        if (outcome != DONE) break;
    }
    __syncthreads();
    if (rank < n_live) publish(block, state);
    __syncthreads();
    if (has_list) close_list(block, n_live);
    write_keys(block, n_live);
    if (threadIdx.x < n_live) task.last_totals[threadIdx.x] = shared.total[threadIdx.x];
    if (threadIdx.x == 0) task.control[0] = step, task.control[1] = n_live, task.control[2] = outcome;
}
