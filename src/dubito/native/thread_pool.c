/* Threads are started once and sleep between calls: starting sixteen of them takes longer than most calls do.

   The calling thread works too, and waits only for threads that have started on a piece. If the pool is busy with another
   caller, the calling thread works alone. A forked process has its own pool. */

#define _POSIX_C_SOURCE 200809L /* for signals */

#include "thread_pool.h"

#include <stdlib.h>

#define MAX_THREADS 256

static int64_t take_piece(ParallelFor *loop)
{
    if (__atomic_load_n(&loop->is_canceled, __ATOMIC_RELAXED))
        return loop->n_pieces;
    return __atomic_fetch_add(&loop->next, 1, __ATOMIC_RELAXED);
}

void cancel(ParallelFor *loop, int is_out_of_memory)
{
    __atomic_fetch_or(&loop->is_out_of_memory, is_out_of_memory, __ATOMIC_RELAXED);
    __atomic_store_n(&loop->is_canceled, 1, __ATOMIC_RELAXED);
}

static void run_pieces(ParallelFor *loop, int worker)
{
    void *scratch = loop->scratch + worker * loop->scratch_bytes;
    int64_t piece;
    while ((piece = take_piece(loop)) < loop->n_pieces)
        loop->work(loop->task, piece, scratch);
}

#ifdef _WIN32

void register_atfork(void)
{
}

static void run_with_pool(ParallelFor *loop, int n_workers)
{
    (void)n_workers;
    run_pieces(loop, 0);
}

#else

#include <pthread.h>
#include <signal.h>

static struct {
    ParallelFor *loop; /* NULL if there is no work */
    int n_threads, n_requested, n_running, is_busy, registers_atfork;
} pool;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_ready = PTHREAD_COND_INITIALIZER, work_done = PTHREAD_COND_INITIALIZER;

static void *thread_main(void *nothing)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        while (pool.n_requested == 0)
            pthread_cond_wait(&work_ready, &lock);
        ParallelFor *loop = pool.loop;
        int worker = pool.n_requested--;
        pool.n_running++;
        pthread_mutex_unlock(&lock);
        run_pieces(loop, worker);
        pthread_mutex_lock(&lock);
        if (--pool.n_running == 0)
            pthread_cond_signal(&work_done);
    }
    return nothing;
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
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

/* Starts up to n_threads. They block all signals, which the interpreter's own threads handle. */
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

/* Hand the loop to the pool; returns 0 if the pool is busy. */
static int wake_threads(ParallelFor *loop, int n_others)
{
    int is_free;
    pthread_mutex_lock(&lock);
    is_free = !pool.is_busy;
    if (is_free) {
        start_threads(n_others);
        pool.is_busy = 1;
        pool.loop = loop;
        pool.n_requested = n_others < pool.n_threads ? n_others : pool.n_threads;
        pthread_cond_broadcast(&work_ready);
    }
    pthread_mutex_unlock(&lock);
    return is_free;
}

static void wait_for_threads(void)
{
    pthread_mutex_lock(&lock);
    pool.n_requested = 0;
    while (pool.n_running > 0)
        pthread_cond_wait(&work_done, &lock);
    pool.is_busy = 0;
    pthread_mutex_unlock(&lock);
}

static void run_with_pool(ParallelFor *loop, int n_workers)
{
    int has_pool = n_workers > 1 && wake_threads(loop, n_workers - 1);
    run_pieces(loop, 0);
    if (has_pool)
        wait_for_threads();
}

#endif

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
