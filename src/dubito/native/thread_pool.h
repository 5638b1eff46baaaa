/* A parallel for loop over a pool of threads. */

#ifndef DUBITO_THREAD_POOL_H
#define DUBITO_THREAD_POOL_H

#include <stdint.h>

/* Pieces of work, numbered from 0, that threads take one at a time until none is left. */
typedef struct {
    void (*work)(void *task, int64_t piece, void *scratch);
    void *task;
    int64_t n_pieces, next;
    int64_t scratch_bytes; /* of each thread */
    char *scratch;
    int64_t is_canceled, is_out_of_memory;
} ParallelFor;

/* Must be called once, before any fork whose child uses the pool. */
void register_atfork(void);

/* Start no further pieces. */
void cancel(ParallelFor *loop, int is_out_of_memory);

/* Run all pieces; returns 0 if memory ran out. */
int parallel_for(ParallelFor *loop, int n_threads);

#endif
