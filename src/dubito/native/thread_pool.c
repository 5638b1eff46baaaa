/* Threads that are begun once and sleep between calls: beginning sixteen of them takes longer than most calls do.

   Who calls works, too, and waits only for those who came in time. While a thread_pool is at work for one caller, another works
   alone. A forked process has a thread_pool of its own. */

#define _POSIX_C_SOURCE 200809L /* for signals */

#include "thread_pool.h"

#include <stdlib.h>

#define MOST_THREADS 256

static int64_t take_piece(Shared *shared)
{
    if (__atomic_load_n(&shared->is_ended, __ATOMIC_RELAXED))
        return shared->n_pieces;
    return __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED);
}

void end_early(Shared *shared, int lacks_memory)
{
    __atomic_fetch_or(&shared->lacks_memory, lacks_memory, __ATOMIC_RELAXED);
    __atomic_store_n(&shared->is_ended, 1, __ATOMIC_RELAXED);
}

static void work_through(Shared *shared, int place)
{
    void *room = shared->rooms + place * shared->room_bytes;
    int64_t piece;
    while ((piece = take_piece(shared)) < shared->n_pieces)
        shared->work(shared->task, piece, room);
}

#ifdef _WIN32

void register_atfork(void)
{
}

static void work_together(Shared *shared, int n_workers)
{
    (void)n_workers;
    work_through(shared, 0);
}

#else

#include <pthread.h>
#include <signal.h>

static struct {
    Shared *shared; /* what is worked on; NULL for nothing */
    int n_begun, n_wanted, n_at_work, is_taken, registers_atfork;
} thread_pool;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;

static void *serve(void *nothing)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        while (thread_pool.n_wanted == 0)
            pthread_cond_wait(&called, &lock);
        Shared *shared = thread_pool.shared;
        int place = thread_pool.n_wanted--;
        thread_pool.n_at_work++;
        pthread_mutex_unlock(&lock);
        work_through(shared, place);
        pthread_mutex_lock(&lock);
        if (--thread_pool.n_at_work == 0)
            pthread_cond_signal(&finished);
    }
    return nothing;
}

static void hold(void)
{
    pthread_mutex_lock(&lock);
}

static void let_go(void)
{
    pthread_mutex_unlock(&lock);
}

static void begin_anew(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&called, NULL);
    pthread_cond_init(&finished, NULL);
    thread_pool.shared = NULL;
    thread_pool.n_begun = thread_pool.n_wanted = thread_pool.n_at_work = thread_pool.is_taken = 0;
}

void register_atfork(void)
{
    if (!thread_pool.registers_atfork)
        thread_pool.registers_atfork = pthread_atfork(hold, let_go, begin_anew) == 0;
}

/* As many as can be begun. Signals are for the interpreter's own threads. */
static void begin(int n_threads)
{
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    for (pthread_t thread; thread_pool.n_begun < n_threads && pthread_create(&thread, NULL, serve, NULL) == 0; thread_pool.n_begun++)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int call(Shared *shared, int n_others)
{
    int is_free;
    pthread_mutex_lock(&lock);
    is_free = !thread_pool.is_taken;
    if (is_free) {
        begin(n_others);
        thread_pool.is_taken = 1;
        thread_pool.shared = shared;
        thread_pool.n_wanted = n_others < thread_pool.n_begun ? n_others : thread_pool.n_begun;
        pthread_cond_broadcast(&called);
    }
    pthread_mutex_unlock(&lock);
    return is_free;
}

static void dismiss(void)
{
    pthread_mutex_lock(&lock);
    thread_pool.n_wanted = 0;
    while (thread_pool.n_at_work > 0)
        pthread_cond_wait(&finished, &lock);
    thread_pool.is_taken = 0;
    pthread_mutex_unlock(&lock);
}

static void work_together(Shared *shared, int n_workers)
{
    int has_thread_pool = n_workers > 1 && call(shared, n_workers - 1);
    work_through(shared, 0);
    if (has_thread_pool)
        dismiss();
}

#endif

int share(Shared *shared, int n_threads)
{
    int n_workers = n_threads < shared->n_pieces ? n_threads : (int)shared->n_pieces;
    n_workers = n_workers < 1 ? 1 : n_workers > MOST_THREADS ? MOST_THREADS : n_workers;
    shared->room_bytes = (shared->room_bytes + 63) / 64 * 64;
    shared->rooms = malloc((size_t)(shared->room_bytes * n_workers) + 1);
    if (shared->rooms == NULL)
        return 0;
    work_together(shared, n_workers);
    free(shared->rooms);
    return !shared->lacks_memory;
}
