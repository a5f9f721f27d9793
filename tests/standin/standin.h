/* What the two stand-ins know of each other: libcuda.c offers it, libnvinfer.c uses it. */
#ifndef STANDIN_H
#define STANDIN_H

#include <stddef.h>

/* Remember the first thing that was done wrong. Tests ask for it with standin_fault_text(). */
void standin_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Is the whole range inside one allocation that is alive? If not, a fault is noted. */
int standin_check(const void *address, size_t bytes, const char *what);

/* Work of another library on a stream: `run` gives 0, or an error that the synchronize returns.
 * `drop` frees the argument when no stream and no graph can need it any more. */
int standin_call(void *stream, int (*run)(void *), void (*drop)(void *), void *argument);

/* Is the stream being recorded into a graph? */
int standin_is_recording(void *stream);

/* Must a step that is being recorded fail? */
int standin_refuses_recording(void);

#endif
