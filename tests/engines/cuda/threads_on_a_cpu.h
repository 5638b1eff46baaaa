// The threads of a block on a CPU, one after another: enough of CUDA to run a kernel that takes one structure.
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

#define __device__
#define __global__
#define __shared__
#define __align__(bytes) alignas(bytes)
#define __grid_constant__
#define __launch_bounds__(threads)

struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct Index { int x; };
static int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static int max(int one, int other) { return one > other ? one : other; }
static int min(int one, int other) { return one < other ? one : other; }

uint4 memory[1 << 14];
static Index threadIdx, blockDim;

// A thread waits until a generation has passed.
struct Thread {
    ucontext_t context;
    const int *generation;
    int waits_for;
    bool is_done;
    std::vector<char> stack;
};
struct Meeting { int n_here, generation; };
struct Warp { Meeting meeting; long long sent[32], received[32]; };
static std::vector<Thread> threads;
static std::vector<Warp> warps;
static Meeting everybody;
static ucontext_t outside;
static void (*whole)();

static void meet(Meeting &meeting, int n_wanted) {
    if (++meeting.n_here == n_wanted) {
        meeting.n_here = 0;
        ++meeting.generation;
        return;
    }
    Thread &thread = threads[threadIdx.x];
    thread.generation = &meeting.generation;
    thread.waits_for = meeting.generation + 1;
    const int here = threadIdx.x;
    swapcontext(&thread.context, &outside);
    threadIdx.x = here;
}

static void __syncthreads() { meet(everybody, blockDim.x); }

static const long long *exchange(long long value) {
    Warp &warp = warps[threadIdx.x / 32];
    warp.sent[threadIdx.x % 32] = value;
    if (warp.meeting.n_here == 31) memcpy(warp.received, warp.sent, sizeof warp.received);
    meet(warp.meeting, 32);
    return warp.received;
}

template <class Fold> static long long fold(long long value, Fold both) {
    const long long *received = exchange(value);
    long long all = received[0];
    for (int lane = 1; lane < 32; ++lane) all = both(all, received[lane]);
    return all;
}
static int __reduce_add_sync(unsigned, int value) { return (int)fold(value, [](long long a, long long b) { return a + b; }); }
static int __reduce_max_sync(unsigned, int value) { return (int)fold(value, [](long long a, long long b) { return a > b ? a : b; }); }
static unsigned __reduce_max_sync(unsigned, unsigned value) { return (unsigned)fold(value, [](long long a, long long b) { return a > b ? a : b; }); }
static unsigned __reduce_min_sync(unsigned, unsigned value) { return (unsigned)fold(value, [](long long a, long long b) { return a < b ? a : b; }); }
static unsigned __reduce_or_sync(unsigned, unsigned value) { return (unsigned)fold(value, [](long long a, long long b) { return a | b; }); }
static unsigned __ballot_sync(unsigned, bool is_so) {
    const long long *received = exchange(is_so);
    unsigned bits = 0;
    for (int lane = 0; lane < 32; ++lane) bits |= (unsigned)received[lane] << lane;
    return bits;
}
static bool __any_sync(unsigned mask, bool is_so) { return __ballot_sync(mask, is_so) != 0; }
static bool __all_sync(unsigned mask, bool is_so) { return __ballot_sync(mask, is_so) == 0xffffffffu; }
template <class T> static T __shfl_sync(unsigned, T value, int lane) { return (T)exchange((long long)value)[lane]; }
template <class T> static T __shfl_xor_sync(unsigned, T value, int apart) {
    return (T)exchange((long long)value)[threadIdx.x % 32 ^ apart];
}
static void __syncwarp() { exchange(0); }
static int __popc(unsigned bits) { return __builtin_popcount(bits); }
static int __ffs(unsigned bits) { return __builtin_ffs((int)bits); }
static int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }
static unsigned __float_as_uint(float value) { unsigned bits; memcpy(&bits, &value, 4); return bits; }
template <class T> static T __ldcg(const T *at) { return *at; }
template <class T> static T atomicAdd(T *at, T value) { T old = *at; *at = old + value; return old; }
template <class T> static T atomicMin(T *at, T value) { T old = *at; *at = old < value ? old : value; return old; }
template <class T> static T atomicMax(T *at, T value) { T old = *at; *at = old > value ? old : value; return old; }
template <class T> static T atomicOr(T *at, T value) { T old = *at; *at = old | value; return old; }

static void live() {
    whole();
    threads[threadIdx.x].is_done = true;
    swapcontext(&threads[threadIdx.x].context, &outside);
}

// 0 where all threads came to their end, 1 where they wait for each other for ever.
static int run_block(int n_threads, void (*kernel)()) {
    whole = kernel;
    blockDim.x = n_threads;
    everybody = {0, 0};
    memset(memory, 0x5a, sizeof memory);
    threads.assign(n_threads, Thread());
    warps.assign(n_threads / 32, Warp());
    for (Thread &thread : threads) {
        thread.stack.resize(1 << 16);
        getcontext(&thread.context);
        thread.context.uc_stack.ss_sp = thread.stack.data();
        thread.context.uc_stack.ss_size = thread.stack.size();
        makecontext(&thread.context, live, 0);
    }
    bool is_turned = false;
    for (int n_left = n_threads; n_left > 0; is_turned = !is_turned) {
        bool has_moved = false;
        for (int number = 0; number < n_threads; ++number) {
            // Forth and back, so that now the first warps run ahead, and now the last.
            const int at = is_turned ? n_threads - 1 - number : number;
            Thread &thread = threads[at];
            if (thread.is_done || (thread.generation && *thread.generation < thread.waits_for)) continue;
            threadIdx.x = at;
            has_moved = true;
            swapcontext(&outside, &thread.context);
            n_left -= thread.is_done;
        }
        if (!has_moved) return 1;
    }
    return 0;
}
