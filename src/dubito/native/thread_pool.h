/* Work shared among threads. */

#ifndef DUBITO_CREW_H
#define DUBITO_CREW_H

#include <stdint.h>

/* Pieces of work, taken one at a time by threads until none is left; piece numbers go up from 0. */
typedef struct {
    void (*work)(void *task, int64_t piece, void *room);
    void *task;
    int64_t n_pieces, next;
    int64_t room_bytes; /* of each thread's own room */
    char *rooms;
    int is_ended, lacks_memory;
} Shared;

/* To be called once, before any fork that is to leave the child able to work. */
void register_atfork(void);

/* No further piece is begun. */
void end_early(Shared *shared, int lacks_memory);

/* Whether there was memory for it. */
int share(Shared *shared, int n_threads);

#endif
