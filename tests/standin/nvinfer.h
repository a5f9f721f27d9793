/* What libnvinfer.c and builder.c share: the shapes of C++ objects, and the way to build one.
 *
 * A public object is {vtable, implementation}; the bindings call the virtual methods of the
 * implementation by their place in its vtable.
 */
#ifndef STANDIN_NVINFER_H
#define STANDIN_NVINFER_H

#include "standin.h"

#include <stdint.h>

#if FAMILY == 8
typedef int32_t Size;
#else
typedef int64_t Size;
#endif
enum { MOST_TENSORS = 256, MOST_AXES = 8, SLOTS = 96 };
enum { FLOAT = 0, HALF = 1, INT32 = 3 };

typedef struct Dims {
    int32_t rank;
    Size size[MOST_AXES];
} Dims;

typedef struct Object { /* what the bindings hold */
    void **vtable;
    void *implementation;
} Object;

typedef struct Method {
    int slot; /* counted after the two destructors */
    void *function;
} Method;

#define M(slot, function) {slot, (void *)(function)}
#define COUNT(table) (sizeof(table) / sizeof *(table))

/* Make a vtable: methods at their slots, `end` as both destructors, a fault everywhere else. */
void fill(void **vtable, const Method *methods, size_t count, void (*end)(Object *));
void *unmodelled(void);

/* Tell an error to a logger of the bindings; 0. */
int log_error(void *logger, const char *format, const char *name);

int cuInit(unsigned flags); /* libcuda.c */

#endif
