/* Threads that start each step of their work together, and the times of the steps. */
#ifndef COMPARE_CREW_H
#define COMPARE_CREW_H

#define CREW_THREADS_MAX 16
#define CREW_STEPS_MAX 8

/* Runs work on so many threads, which are pinned; returns when all have ended. */
void crew_run(unsigned threads, void (*work)(unsigned thread));

/* For the threads of crew_run: waits until all have come here; then the step begins. */
void crew_begin(void);
/* The step that crew_begin began is over. */
void crew_end(unsigned step);

/* Nanoseconds that a step took. */
double crew_time(unsigned step);

#endif
