/* Threads are started once and sleep between calls, since starting sixteen threads takes longer than most calls.

   The calling thread also runs pieces, and waits only for threads that have started. If the pool is busy with another caller,
   the calling thread runs all pieces. A forked process has its own pool. */

#define _POSIX_C_SOURCE 200809L /* for signals */

#include "thread_pool.h"
#include "portable.h"

#include <stdlib.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <process.h>
#else
#include <pthread.h>
#include <signal.h>
#endif

#define MAX_THREADS 256

static int64_t take_piece(ParallelFor *loop)
{
    return atomic_read(&loop->is_canceled) ? loop->n_pieces : atomic_add(&loop->next, 1);
}

void cancel(ParallelFor *loop, int is_out_of_memory)
{
    atomic_add(&loop->is_out_of_memory, is_out_of_memory);
    atomic_add(&loop->is_canceled, 1);
}

static void run_pieces(ParallelFor *loop, int worker)
{
    void *scratch = loop->scratch + worker * loop->scratch_bytes;
    int64_t piece;
    while ((piece = take_piece(loop)) < loop->n_pieces)
        loop->work(loop->task, piece, scratch);
}

/* Locks and threads of the system. */

#ifdef _WIN32
static SRWLOCK lock = SRWLOCK_INIT;
static CONDITION_VARIABLE work_ready = CONDITION_VARIABLE_INIT, work_done = CONDITION_VARIABLE_INIT;
#define LOCK() AcquireSRWLockExclusive(&lock)
#define UNLOCK() ReleaseSRWLockExclusive(&lock)
#define WAIT(condition) SleepConditionVariableSRW(&(condition), &lock, INFINITE, 0)
#define WAKE_ONE(condition) WakeConditionVariable(&(condition))
#define WAKE_ALL(condition) WakeAllConditionVariable(&(condition))
#define THREAD_MAIN unsigned __stdcall
#else
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_ready = PTHREAD_COND_INITIALIZER, work_done = PTHREAD_COND_INITIALIZER;
#define LOCK() pthread_mutex_lock(&lock)
#define UNLOCK() pthread_mutex_unlock(&lock)
#define WAIT(condition) pthread_cond_wait(&(condition), &lock)
#define WAKE_ONE(condition) pthread_cond_signal(&(condition))
#define WAKE_ALL(condition) pthread_cond_broadcast(&(condition))
#define THREAD_MAIN void *
#endif

static struct {
    ParallelFor *loop; /* NULL if there is no work */
    int n_threads, n_requested, n_running, is_busy, registers_atfork;
} pool;

static THREAD_MAIN thread_main(void *nothing)
{
    (void)nothing;
    LOCK();
    for (;;) {
        while (pool.n_requested == 0)
            WAIT(work_ready);
        ParallelFor *loop = pool.loop;
        int worker = pool.n_requested--;
        pool.n_running++;
        UNLOCK();
        run_pieces(loop, worker);
        LOCK();
        if (--pool.n_running == 0)
            WAKE_ONE(work_done);
    }
    return 0;
}

#ifdef _WIN32

void register_atfork(void)
{
}

static int start_thread(void)
{
    uintptr_t thread = _beginthreadex(NULL, 0, thread_main, NULL, 0, NULL);
    return thread != 0 && CloseHandle((HANDLE)thread);
}

static void start_threads(int n_threads)
{
    while (pool.n_threads < n_threads && start_thread())
        pool.n_threads++;
}

#else

static void before_fork(void)
{
    LOCK();
}

static void after_fork_in_parent(void)
{
    UNLOCK();
}

static void after_fork_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&work_ready, NULL);
    pthread_cond_init(&work_done, NULL);
    pool.loop = NULL;
    pool.n_threads = pool.n_requested = pool.n_running = pool.is_busy = 0;
}

void register_atfork(void)
{
    if (!pool.registers_atfork)
        pool.registers_atfork = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

/* Start threads until there are n_threads. They block all signals, so that only the interpreter's threads handle signals. */
static void start_threads(int n_threads)
{
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    for (pthread_t thread; pool.n_threads < n_threads && pthread_create(&thread, NULL, thread_main, NULL) == 0;
         pool.n_threads++)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

#endif

/* Let the pool run the loop; returns 0 if the pool is busy. */
static int wake_threads(ParallelFor *loop, int n_others)
{
    int is_free;
    LOCK();
    is_free = !pool.is_busy;
    if (is_free) {
        start_threads(n_others);
        pool.is_busy = 1;
        pool.loop = loop;
        pool.n_requested = n_others < pool.n_threads ? n_others : pool.n_threads;
        WAKE_ALL(work_ready);
    }
    UNLOCK();
    return is_free;
}

static void wait_for_threads(void)
{
    LOCK();
    pool.n_requested = 0;
    while (pool.n_running > 0)
        WAIT(work_done);
    pool.is_busy = 0;
    UNLOCK();
}

static void run_with_pool(ParallelFor *loop, int n_workers)
{
    int has_pool = n_workers > 1 && wake_threads(loop, n_workers - 1);
    run_pieces(loop, 0);
    if (has_pool)
        wait_for_threads();
}

int parallel_for(ParallelFor *loop, int n_threads)
{
    int n_workers = n_threads < loop->n_pieces ? n_threads : (int)loop->n_pieces;
    n_workers = n_workers < 1 ? 1 : n_workers > MAX_THREADS ? MAX_THREADS : n_workers;
    loop->scratch_bytes = (loop->scratch_bytes + 63) / 64 * 64;
    loop->scratch = malloc((size_t)(loop->scratch_bytes * n_workers) + 1);
    if (loop->scratch == NULL)
        return 0;
    run_with_pool(loop, n_workers);
    free(loop->scratch);
    return !loop->is_out_of_memory;
}
