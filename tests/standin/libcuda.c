/* A stand-in for libcuda.so.1: the calls of the driver that pycuda makes for us, on host memory.
 *
 * It is stricter than a GPU. Nothing on a stream happens before a synchronize: neither what is
 * sent nor what is fetched. New memory is full of 0xFF, which is NaN as a float and -1 as a
 * position. Freed memory is unmapped. Every copy is held against the allocations. What breaks a
 * rule is noted once, in words, and the call or the next synchronize fails as a driver's would.
 *
 * One GPU, one primary context. Calls that nobody needs are listed in unmodelled.h: they exist
 * so that pycuda can be loaded, and note a fault.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201,
    ILLEGAL_ADDRESS = 700, NOT_PERMITTED = 800, NOT_SUPPORTED = 801, CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALID = 901, NO_DEVICE = 100
};
typedef int Status;
typedef char *Address;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- what tests ask and set ---- */

static char fault[400];
static int no_device, capture_fails;
static size_t total_memory = (size_t)4 << 30, used_memory;
static long synchronizes, launches, transfers, allocations;
static int device_capability = 53;
static char device_name[64] = "Stand-in GPU";

void standin_fault(const char *format, ...) {
    va_list arguments;
    if (fault[0]) return; /* the first one is the cause */
    va_start(arguments, format);
    vsnprintf(fault, sizeof fault, format, arguments);
    va_end(arguments);
}

const char *standin_fault_text(void) { return fault; }
void standin_forget_fault(void) { fault[0] = 0; }
void standin_set_device(int present) { no_device = !present; }
void standin_set_capability(int number) { device_capability = number; }  /* as 87 */
void standin_set_memory(size_t bytes) { total_memory = bytes; }
/* 1: at the end of a capture; 2: in TensorRT already, which tells it of its own step. */
void standin_fail_captures(int fail) { capture_fails = fail; }
int standin_refuses_recording(void) { return capture_fails == 2; }
size_t standin_used_memory(void) { return used_memory; }
long standin_synchronizes(void) { return synchronizes; }
long standin_launches(void) { return launches; }
long standin_transfers(void) { return transfers; }
long standin_allocations(void) { return allocations; }

/* ---- memory ---- */

typedef struct Block {
    Address address;
    size_t bytes, mapped;
    struct Block *next;
} Block;

static Block *blocks;

static Block *block_of(const void *address) {
    Block *block = blocks;
    while (block && ((Address)address < block->address ||
                     (Address)address >= block->address + block->bytes))
        block = block->next;
    return block;
}

int standin_check(const void *address, size_t bytes, const char *what) {
    Block *block;
    pthread_mutex_lock(&lock);
    block = block_of(address);
    pthread_mutex_unlock(&lock);
    if (!block) {
        standin_fault("%s: %p is in no allocation that is alive", what, address);
        return 0;
    }
    if ((Address)address + bytes > block->address + block->bytes) {
        standin_fault("%s: %zu bytes beyond the end of an allocation of %zu", what,
                      (size_t)((Address)address + bytes - block->address - block->bytes),
                      block->bytes);
        return 0;
    }
    return 1;
}

/* ---- contexts: one, and a stack of them in every thread ---- */

static char primary_context;
static int retained;
static __thread int depth;

int standin_depth(void) { return depth; }

static int current(const char *call) {
    if (depth > 0) return 1;
    standin_fault("%s without a current context", call);
    return 0;
}

/* For processes that no test can reach into: EDGEFORMER_STANDIN_GPU is absent, or a number as 87. */
__attribute__((constructor)) static void read_environment(void) {
    const char *gpu = getenv("EDGEFORMER_STANDIN_GPU");
    no_device = gpu && !strcmp(gpu, "absent");
    if (gpu && !no_device) device_capability = atoi(gpu);
}

Status cuInit(unsigned flags) { return no_device || flags ? NO_DEVICE : OK; }
Status cuDriverGetVersion(int *version) { *version = 10020; return OK; }
Status cuDeviceGetCount(int *count) { *count = 1; return OK; }
Status cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal ? INVALID_DEVICE : OK;
}
Status cuDeviceGetName(char *name, int bytes, int device) {
    snprintf(name, (size_t)bytes, "%s", device_name);
    return device ? INVALID_DEVICE : OK;
}
Status cuDeviceComputeCapability(int *major, int *minor, int device) {
    *major = device_capability / 10;
    *minor = device_capability % 10;
    return device ? INVALID_DEVICE : OK;
}
Status cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? device_capability / 10 : attribute == 76 ? device_capability % 10 : 0;
    return device ? INVALID_DEVICE : OK;
}
Status cuDevicePrimaryCtxRetain(void **context, int device) {
    retained++;
    *context = &primary_context;
    return device ? INVALID_DEVICE : OK;
}
Status cuDevicePrimaryCtxRelease_v2(int device) {
    retained--;
    return device ? INVALID_DEVICE : OK;
}
Status cuDevicePrimaryCtxRelease(int device) { return cuDevicePrimaryCtxRelease_v2(device); }
Status cuCtxPushCurrent_v2(void *context) {
    if (context != &primary_context) return INVALID_CONTEXT;
    depth++;
    return OK;
}
Status cuCtxPopCurrent_v2(void **context) {
    if (!depth) return INVALID_CONTEXT;
    depth--;
    if (context) *context = &primary_context;
    return OK;
}
Status cuCtxGetDevice(int *device) { *device = 0; return current("cuCtxGetDevice") ? OK : INVALID_CONTEXT; }
Status cuCtxGetApiVersion(void *context, unsigned *version) { *version = 3020; return context ? OK : OK; }

static const char *text_of(Status status) {
    switch (status) {
    case OUT_OF_MEMORY: return "out of memory";
    case INVALID_VALUE: return "invalid argument";
    case NO_DEVICE: return "no CUDA-capable device is detected";
    case INVALID_CONTEXT: return "invalid device context";
    case ILLEGAL_ADDRESS: return "an illegal memory access was encountered";
    default: return "an error of the stand-in";
    }
}
Status cuGetErrorString(Status status, const char **text) { *text = text_of(status); return OK; }
Status cuGetErrorName(Status status, const char **text) { return cuGetErrorString(status, text); }

/* ---- streams: lists of work that wait for a synchronize ---- */

typedef struct Call { /* another library's work, shared by a graph and its launches */
    int (*run)(void *);
    void (*drop)(void *);
    void *argument;
    int users;
} Call;

typedef enum { SEND, FETCH, MOVE, SET8, SET32, CALL } Kind;

typedef struct Work {
    Kind kind;
    Address target, source;
    size_t target_pitch, source_pitch, width, height;
    unsigned value;
    Call *call;
} Work;

typedef struct List {
    Work *work;
    size_t count, room;
} List;

typedef struct Stream {
    List waiting, *recorded; /* recorded: the graph, while one is being recorded */
    int broken;              /* an error that every later synchronize gives again */
    struct Stream *next;
} Stream;

static Stream *streams;

static void append(List *list, Work work) {
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 16;
        list->work = realloc(list->work, list->room * sizeof *list->work);
    }
    if (work.call) work.call->users++;
    list->work[list->count++] = work;
}

static void empty(List *list) {
    size_t index;
    for (index = 0; index < list->count; index++) {
        Call *call = list->work[index].call;
        if (call && --call->users == 0) {
            call->drop(call->argument);
            free(call);
        }
    }
    list->count = 0;
}

/* Bytes from the first to the last one that a copy of rows touches. */
static size_t reach(size_t pitch, const Work *work) {
    return work->height ? (work->height - 1) * pitch + work->width : 0;
}

static int inside(const Work *work) {
    int good = 1;
    if (work->kind != FETCH && work->kind != CALL)
        good &= standin_check(work->target, reach(work->target_pitch, work), "copy to the GPU");
    if (work->kind == FETCH || work->kind == MOVE)
        good &= standin_check(work->source, reach(work->source_pitch, work), "copy from the GPU");
    if (work->kind == MOVE && work->source < work->target + reach(work->target_pitch, work) &&
        work->target < work->source + reach(work->source_pitch, work) &&
        work->target_pitch != work->source_pitch) {
        standin_fault("a copy overlaps itself");
        good = 0;
    }
    return good;
}

static Status perform(const Work *work) {
    size_t row, index;
    if (work->kind == CALL) return work->call->run(work->call->argument);
    if (!inside(work)) return ILLEGAL_ADDRESS;
    for (row = 0; row < work->height; row++) {
        Address target = work->target + row * work->target_pitch;
        if (work->kind == SET8)
            memset(target, (int)work->value, work->width);
        else if (work->kind == SET32)
            for (index = 0; index < work->width / 4; index++)
                ((unsigned *)target)[index] = work->value;
        else
            memcpy(target, work->source + row * work->source_pitch, work->width);
    }
    return OK;
}

static Status finish(Stream *stream) {
    size_t index;
    if (stream->recorded) {
        standin_fault("a synchronize while a graph is being recorded");
        return CAPTURE_UNSUPPORTED;
    }
    for (index = 0; index < stream->waiting.count && !stream->broken; index++)
        stream->broken = perform(&stream->waiting.work[index]);
    empty(&stream->waiting);
    return stream->broken;
}

static Status put(Stream *stream, Work work) {
    if (!current("work on a stream")) return INVALID_CONTEXT;
    if (!stream) {
        standin_fault("work on the default stream, which nothing waits for");
        return INVALID_VALUE;
    }
    if (stream->broken) return stream->broken;
    transfers += work.kind != CALL;
    append(stream->recorded ? stream->recorded : &stream->waiting, work);
    return OK;
}

static Work rows(Kind kind, Address target, size_t target_pitch, const void *source,
                 size_t source_pitch, size_t width, size_t height) {
    Work work = {kind, target, (Address)source, target_pitch, source_pitch, width, height, 0, NULL};
    return work;
}

static Work bytes(Kind kind, Address target, const void *source, size_t count) {
    return rows(kind, target, count, source, count, count, 1);
}

int standin_is_recording(void *stream) { return ((Stream *)stream)->recorded != NULL; }

int standin_call(void *stream, int (*run)(void *), void (*drop)(void *), void *argument) {
    Work work = bytes(CALL, NULL, NULL, 0);
    Status status;
    work.call = malloc(sizeof *work.call);
    *work.call = (Call){run, drop, argument, 0};
    status = put(stream, work);
    if (status) {
        drop(argument);
        free(work.call);
    }
    return status;
}

Status cuStreamCreate(void **stream, unsigned flags) {
    Stream *made = calloc(1, sizeof *made);
    if (!current("cuStreamCreate")) return INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    made->next = streams;
    streams = made;
    pthread_mutex_unlock(&lock);
    *stream = made;
    return flags > 1 ? INVALID_VALUE : OK;
}
Status cuStreamDestroy_v2(void *stream) {
    Stream *found = stream, **link = &streams;
    if (!current("cuStreamDestroy")) return INVALID_CONTEXT;
    if (found->waiting.count) standin_fault("a stream is destroyed while work waits on it");
    pthread_mutex_lock(&lock);
    while (*link != found) link = &(*link)->next;
    *link = found->next;
    pthread_mutex_unlock(&lock);
    empty(&found->waiting);
    free(found->waiting.work);
    free(found);
    return OK;
}
Status cuStreamSynchronize(void *stream) {
    if (!current("cuStreamSynchronize")) return INVALID_CONTEXT;
    synchronizes++;
    return finish(stream);
}
Status cuCtxSynchronize(void) {
    Stream *stream;
    Status status = OK;
    for (stream = streams; stream; stream = stream->next)
        if (finish(stream)) status = stream->broken;
    synchronizes++;
    return status;
}

/* ---- graphs ---- */

Status cuStreamBeginCapture_v2(Stream *stream, int mode) {
    if (!current("cuStreamBeginCapture") || mode < 0 || mode > 2) return INVALID_VALUE;
    stream->recorded = calloc(1, sizeof *stream->recorded);
    return OK;
}
Status cuStreamEndCapture(Stream *stream, List **graph) {
    if (!stream->recorded) return CAPTURE_INVALID;
    *graph = stream->recorded;
    stream->recorded = NULL;
    if (!capture_fails) return OK;
    empty(*graph);
    free(*graph);
    *graph = NULL;
    return CAPTURE_INVALID;
}
/* CUDA 10.2's call: a node and a log for errors. A graph that is ready is a copy. */
Status cuGraphInstantiate(List **ready, List *graph, void **node, char *log, size_t log_bytes) {
    size_t index;
    *ready = calloc(1, sizeof **ready);
    for (index = 0; index < graph->count; index++) append(*ready, graph->work[index]);
    return !node && !log && !log_bytes ? OK : INVALID_VALUE;
}
Status cuGraphLaunch(List *ready, Stream *stream) {
    size_t index;
    if (!current("cuGraphLaunch")) return INVALID_CONTEXT;
    launches++;
    for (index = 0; index < ready->count; index++) append(&stream->waiting, ready->work[index]);
    return stream->broken;
}
Status cuGraphDestroy(List *graph) {
    empty(graph);
    free(graph->work);
    free(graph);
    return OK;
}
Status cuGraphExecDestroy(List *ready) { return cuGraphDestroy(ready); }

/* ---- memory, copies ---- */

Status cuMemGetInfo_v2(size_t *left, size_t *total) {
    *left = total_memory - used_memory;
    *total = total_memory;
    return OK;
}
Status cuMemAlloc_v2(Address *address, size_t count) {
    Block *block;
    Stream *stream;
    if (!current("cuMemAlloc")) return INVALID_CONTEXT;
    for (stream = streams; stream; stream = stream->next)
        if (stream->recorded) {
            standin_fault("an allocation while a graph is being recorded");
            return CAPTURE_UNSUPPORTED;
        }
    if (!count) return INVALID_VALUE;
    if (used_memory + count > total_memory) return OUT_OF_MEMORY;
    block = malloc(sizeof *block);
    block->bytes = count;
    block->mapped = (count + 4095) / 4096 * 4096;
    block->address = mmap(NULL, block->mapped, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(block->address, 0xFF, count);
    pthread_mutex_lock(&lock);
    block->next = blocks;
    blocks = block;
    used_memory += count;
    allocations++;
    pthread_mutex_unlock(&lock);
    *address = block->address;
    return OK;
}
Status cuMemFree_v2(Address address) {
    Block **link = &blocks, *found;
    Stream *stream;
    if (!current("cuMemFree")) return INVALID_CONTEXT;
    for (stream = streams; stream; stream = stream->next)
        if (stream->waiting.count) standin_fault("memory is freed while work waits on a stream");
    pthread_mutex_lock(&lock);
    while (*link && (*link)->address != address) link = &(*link)->next;
    found = *link;
    if (found) {
        *link = found->next;
        used_memory -= found->bytes;
        /* No access from now on, and the address is not given out again. */
        mmap(address, found->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        free(found);
    } else
        standin_fault("memory is freed that was not allocated, or was freed before");
    pthread_mutex_unlock(&lock);
    return found ? OK : INVALID_VALUE;
}

Status cuMemcpyHtoDAsync_v2(Address target, const void *source, size_t count, Stream *stream) {
    return put(stream, bytes(SEND, target, source, count));
}
Status cuMemcpyDtoHAsync_v2(void *target, Address source, size_t count, Stream *stream) {
    return put(stream, bytes(FETCH, target, source, count));
}
Status cuMemcpyDtoDAsync_v2(Address target, Address source, size_t count, Stream *stream) {
    return put(stream, bytes(MOVE, target, source, count));
}
Status cuMemsetD8Async(Address target, unsigned char value, size_t count, Stream *stream) {
    Work work = bytes(SET8, target, NULL, count);
    work.value = value;
    return put(stream, work);
}
Status cuMemsetD32Async(Address target, unsigned value, size_t count, Stream *stream) {
    Work work = bytes(SET32, target, NULL, 4 * count);
    work.value = value;
    return put(stream, work);
}

typedef struct Copy2D { /* CUDA_MEMCPY2D */
    size_t source_x, source_y;
    int source_kind;
    const void *source_host;
    Address source;
    void *source_array;
    size_t source_pitch, target_x, target_y;
    int target_kind;
    void *target_host;
    Address target;
    void *target_array;
    size_t target_pitch, width, height;
} Copy2D;

Status cuMemcpy2DAsync_v2(const Copy2D *copy, Stream *stream) {
    const int device = 2;
    if (copy->source_kind != device || copy->target_kind != device ||
        copy->source_pitch < copy->source_x + copy->width ||
        copy->target_pitch < copy->target_x + copy->width) {
        standin_fault("a strided copy of %zu bytes has pitches of %zu and %zu", copy->width,
                      copy->source_pitch, copy->target_pitch);
        return INVALID_VALUE;
    }
    return put(stream, rows(MOVE, copy->target + copy->target_x, copy->target_pitch,
                            copy->source + copy->source_x, copy->source_pitch, copy->width,
                            copy->height));
}

#define UNMODELLED(name)                                          \
    int name(void);                                               \
    int name(void) {                                              \
        standin_fault("%s is not modelled by the stand-in", #name); \
        return NOT_SUPPORTED;                                     \
    }
#include "unmodelled.h"
