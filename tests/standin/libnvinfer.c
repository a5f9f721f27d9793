/* A stand-in for libnvinfer: what NVIDIA's own Python bindings call to load and run an engine.
 *
 * -DFAMILY=8, 10 or 11: the bindings of 8.2 to 8.6, of 10.0 to 10.16, of 11. Only facts of the
 * C++ ABI are used. A public object is {vtable, implementation}; the bindings call the virtual
 * methods of the implementation by their place in its vtable, which the tables at the end give.
 *
 * A plan is text: "STANDIN number arena-bytes", then a line for each tensor:
 *     input  NAME DTYPE DIMS MIN MAX        DIMS such as P,16: a name is a size that is free
 *     output NAME DTYPE DIMS
 *     # anything                            what builder.c tells of how it was built
 * The arithmetic is a callback's (standin_set_executor); without one all outputs are 0. The rules
 * are TensorRT's, or stricter:
 * every free size set and inside the profile, every address set, a multiple of 256 and inside an
 * allocation over its whole length, activations in memory that was given, and for a graph: run
 * once at its shape before it is recorded, and not replayed after the shape has changed.
 */
#include "nvinfer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Tensor {
    char name[96];
    char label[MOST_AXES][16]; /* of each axis: a number, or the name of a free size */
    int is_input, dtype, rank;
    Dims least, most;
} Tensor;

typedef struct Runtime {
    void **vtable;
    Object object;
} Runtime;

typedef struct Engine {
    void **vtable;
    Object object;
    int number, count, contexts;
    int64_t arena_bytes;
    Tensor tensors[MOST_TENSORS];
} Engine;

typedef struct Context {
    void **vtable;
    Object object;
    Engine *engine;
    void *addresses[MOST_TENSORS];
    Dims shapes[MOST_TENSORS];
    char *arena;
    int own_arena, profile, users; /* users: this object, and runs that are on a stream or in a graph */
    long generation, ran;          /* how often shapes changed; the generation that has run */
} Context;

typedef struct Run { /* one enqueue: shapes as they were then */
    Context *context;
    long generation;
    void *addresses[MOST_TENSORS];
    Dims shapes[MOST_TENSORS];
} Run;

typedef int (*Executor)(int number, int count, const char **names, void **addresses,
                        const long long *sizes, const int *ranks);

static Executor executor;
static long enqueues;
static int runtimes; /* alive */
static void *logger;

void standin_set_executor(Executor chosen) { executor = chosen; }
long standin_enqueues(void) { return enqueues; }

/* ---- errors, told to the logger as TensorRT does ---- */

int log_error(void *to, const char *format, const char *name) {
    const int error = 1;
    char message[256];
    void (**methods)(void *, int32_t, const char *) = *(void **)to;
    snprintf(message, sizeof message, format, name);
    methods[FAMILY >= 11 ? 4 : 0](to, error, message);
    return 0;
}
static int complain(const char *format, const char *name) {
    return log_error(logger, format, name);
}

/* ---- plans ---- */

static int words(char *text, const char *separator, char found[][16], int most) {
    int count = 0;
    char *rest, *word = strtok_r(text, separator, &rest);
    for (; word && count < most; word = strtok_r(NULL, separator, &rest))
        snprintf(found[count++], 16, "%s", word);
    return count;
}

static Dims numbers(char *text) {
    char found[MOST_AXES][16];
    Dims dims = {0};
    int axis;
    dims.rank = words(text, ",", found, MOST_AXES);
    for (axis = 0; axis < dims.rank; axis++) dims.size[axis] = atoll(found[axis]);
    return dims;
}

static void read_tensor(Engine *engine, const char *line) {
    char kind[8], dims[64], least[64] = "", most[64] = "";
    Tensor *tensor = &engine->tensors[engine->count];
    if (*line == '#') return;
    if (sscanf(line, "%7s %95s %d %63s %63s %63s", kind, tensor->name, &tensor->dtype, dims, least,
               most) < 4)
        return;
    tensor->is_input = !strcmp(kind, "input");
    tensor->rank = words(dims, ",", tensor->label, MOST_AXES);
    tensor->least = numbers(least);
    tensor->most = numbers(most);
    engine->count++;
}

static Size fixed(const char *label) { return *label >= '0' && *label <= '9' ? atoll(label) : -1; }

static Dims declared(const Tensor *tensor) {
    Dims dims = {0};
    dims.rank = tensor->rank;
    for (int axis = 0; axis < tensor->rank; axis++) dims.size[axis] = fixed(tensor->label[axis]);
    return dims;
}

static int is_dynamic(const Tensor *tensor) {
    for (int axis = 0; axis < tensor->rank; axis++)
        if (fixed(tensor->label[axis]) < 0) return 1;
    return 0;
}

static int find(const Engine *engine, const char *name) {
    for (int index = 0; index < engine->count; index++)
        if (!strcmp(engine->tensors[index].name, name)) return index;
    complain("the engine has no tensor %s", name);
    return -1;
}

/* ---- objects ---- */

static void *runtime_methods[SLOTS], *engine_methods[SLOTS], *context_methods[SLOTS];
static void *runtime_object[SLOTS], *engine_object[SLOTS], *context_object[SLOTS];

static void *runtime_public(Runtime *runtime) { return &runtime->object; }
static void *engine_public(Engine *engine) { return &engine->object; }
static void *context_public(Context *context) { return &context->object; }

static void *nothing(void) { return NULL; }
static int32_t one(void) { return 1; }
static const char *label(void) { return "stand-in"; }
static void *get_logger(void) { return logger; }

void *unmodelled(void) {
    standin_fault("the bindings called a method that the stand-in does not model");
    return NULL;
}

static void *deserialize(Runtime *runtime, const char *plan, size_t bytes) {
    Engine *engine = calloc(1, sizeof *engine);
    char *text = strndup(plan, bytes), *rest, *line = strtok_r(text, "\n", &rest);
    long long arena = 0;
    (void)runtime;
    if (!line || sscanf(line, "STANDIN %d %lld", &engine->number, &arena) != 2) {
        free(engine);
        free(text);
        complain("Error Code 1: Serialization (magic tag does not match)%s", "");
        return NULL;
    }
    while ((line = strtok_r(NULL, "\n", &rest))) read_tensor(engine, line);
    free(text);
    engine->arena_bytes = arena;
    engine->vtable = engine_methods + 2;
    engine->object = (Object){engine_object + 2, engine};
    return &engine->object;
}

/* Destructors; the second one in a vtable also frees. */
static void end_runtime(Object *object) {
    runtimes--;
    free(object->implementation);
}
static void end_engine(Object *object) {
    Engine *engine = object->implementation;
    if (engine->contexts) standin_fault("an engine is deleted before its contexts");
    free(engine);
}
static void let_go(Context *context) {
    if (--context->users) return;
    if (context->own_arena) free(context->arena);
    free(context);
}
static void end_context(Object *object) {
    Context *context = object->implementation;
    if (context->users > 1) standin_fault("a context is deleted while a stream or graph needs it");
    context->engine->contexts--;
    let_go(context);
}

/* ---- engines ---- */

static int32_t tensor_count(Engine *engine) { return engine->count; }
static int64_t arena_bytes(Engine *engine) { return engine->arena_bytes; }
static const char *name_at(Engine *engine, int32_t index) { return engine->tensors[index].name; }
static int32_t index_of(Engine *engine, const char *name) { return find(engine, name); }
static char input_at(Engine *engine, int32_t index) { return (char)engine->tensors[index].is_input; }
static Dims shape_at(Engine *engine, int32_t index) { return declared(&engine->tensors[index]); }
static int32_t dtype_at(Engine *engine, int32_t index) { return engine->tensors[index].dtype; }
static Dims profile_at(Engine *engine, int32_t index, int32_t profile, int32_t which) {
    const Tensor *tensor = &engine->tensors[index];
    if (profile) complain("there is one profile%s", "");
    return which == 2 ? tensor->most : tensor->least;
}
static Dims shape_of(Engine *engine, const char *name) { return shape_at(engine, find(engine, name)); }
static int32_t dtype_of(Engine *engine, const char *name) { return dtype_at(engine, find(engine, name)); }
static int32_t mode_of(Engine *engine, const char *name) {
    return engine->tensors[find(engine, name)].is_input ? 1 : 2;
}
static Dims profile_of(Engine *engine, const char *name, int32_t profile, int32_t which) {
    return profile_at(engine, find(engine, name), profile, which);
}

static void *make_context(Engine *engine, int own_arena) {
    Context *context = calloc(1, sizeof *context);
    context->vtable = context_methods + 2;
    context->object = (Object){context_object + 2, context};
    context->engine = engine;
    context->users = 1;
    context->generation = 1;
    context->own_arena = own_arena;
    for (int index = 0; index < engine->count; index++) context->shapes[index].rank = -1;
    /* Before TensorRT 10, a second context finds the only profile taken. */
    context->profile = FAMILY == 8 && engine->contexts ? -1 : 0;
    engine->contexts++;
    return &context->object;
}
static void *context_with_memory(Engine *engine) {
    standin_fault("a context that brings its own memory, beside the arena");
    return make_context(engine, 1);
}
static void *context_without_memory(Engine *engine) { return make_context(engine, 0); }
static void *context_by_strategy(Engine *engine, int32_t strategy) {
    const int user_managed = 2;
    return strategy == user_managed ? make_context(engine, 0) : context_with_memory(engine);
}

/* ---- contexts ---- */

static void *engine_of(Context *context) { return &context->engine->object; }
static void set_memory(Context *context, char *arena) { context->arena = arena; }
static void set_memory_v2(Context *context, char *arena, int64_t bytes) {
    if (bytes < context->engine->arena_bytes) standin_fault("the arena is too small");
    context->arena = arena;
}

static char set_shape(Context *context, int32_t index, const Dims *wanted) {
    const Tensor *tensor = index < 0 ? NULL : &context->engine->tensors[index];
    if (!tensor) return 0;
    if (context->profile < 0) return (char)complain("no profile is chosen, for %s", tensor->name);
    if (!tensor->is_input) return (char)complain("%s is no input", tensor->name);
    if (wanted->rank != tensor->rank) return (char)complain("wrong rank of %s", tensor->name);
    for (int axis = 0; axis < tensor->rank; axis++)
        if (wanted->size[axis] < tensor->least.size[axis] ||
            wanted->size[axis] > tensor->most.size[axis])
            return (char)complain("a size outside the profile's [min, max] for %s", tensor->name);
    if (memcmp(&context->shapes[index], wanted, sizeof *wanted)) context->generation++;
    context->shapes[index] = *wanted;
    return 1;
}
static char set_shape_at(Context *context, int32_t index, Dims wanted) {
    return set_shape(context, index, &wanted);
}
static char set_shape_of(Context *context, const char *name, const Dims *wanted) {
    Dims clean = {0}; /* the bindings leave unused sizes as they were */
    clean.rank = wanted->rank;
    for (int axis = 0; axis < wanted->rank && axis < MOST_AXES; axis++)
        clean.size[axis] = wanted->size[axis];
    return set_shape(context, find(context->engine, name), &clean);
}
static char set_address(Context *context, const char *name, void *address) {
    int index = find(context->engine, name);
    if (index < 0) return 0;
    context->addresses[index] = address;
    return 1;
}

/* The size that an input's shape gives to a name, or -1. */
static Size size_of(const Context *context, const char *wanted) {
    const Engine *engine = context->engine;
    if (fixed(wanted) >= 0) return fixed(wanted);
    for (int index = 0; index < engine->count; index++)
        for (int axis = 0; engine->tensors[index].is_input && axis < context->shapes[index].rank; axis++)
            if (!strcmp(engine->tensors[index].label[axis], wanted))
                return context->shapes[index].size[axis];
    return -1;
}

/* Shapes of all tensors for one run; inputs that share a name must share its size. */
static int settle_shapes(const Context *context, Dims *shapes) {
    const Engine *engine = context->engine;
    for (int index = 0; index < engine->count; index++) {
        const Tensor *tensor = &engine->tensors[index];
        Dims found = declared(tensor);
        if (tensor->is_input && is_dynamic(tensor)) found = context->shapes[index];
        if (found.rank < 0) return complain("the shape of %s was not set", tensor->name);
        for (int axis = 0; axis < tensor->rank; axis++) {
            Size size = size_of(context, tensor->label[axis]);
            if (found.size[axis] < 0) found.size[axis] = size;
            if (found.size[axis] != size || size < 0)
                return complain("sizes contradict each other at %s", tensor->name);
        }
        shapes[index] = found;
    }
    return 1;
}

static size_t bytes_of(const Tensor *tensor, const Dims *shape) {
    size_t bytes = tensor->dtype == HALF ? 2 : 4;
    for (int axis = 0; axis < shape->rank; axis++) bytes *= (size_t)shape->size[axis];
    return bytes;
}

static int check_memory(const Run *run) {
    const Engine *engine = run->context->engine;
    int good = standin_check(run->context->arena, (size_t)engine->arena_bytes, "the arena");
    for (int index = 0; index < engine->count; index++) {
        const Tensor *tensor = &engine->tensors[index];
        size_t bytes = bytes_of(tensor, &run->shapes[index]);
        good &= standin_check(run->addresses[index], bytes, tensor->name);
    }
    return good;
}

static int zero_outputs(const Run *run) {
    const Engine *engine = run->context->engine;
    for (int index = 0; index < engine->count; index++)
        if (!engine->tensors[index].is_input)
            memset(run->addresses[index], 0, bytes_of(&engine->tensors[index], &run->shapes[index]));
    return 0;
}

/* What the GPU would do, when the stream comes to it. */
static int compute(void *argument) {
    const Run *run = argument;
    const Engine *engine = run->context->engine;
    static __thread const char *names[MOST_TENSORS];
    static __thread long long sizes[MOST_TENSORS * MOST_AXES];
    static __thread int ranks[MOST_TENSORS];
    if (!check_memory(run)) return 700;
    if (run->generation != run->context->generation) {
        standin_fault("a graph is replayed after the shapes of its context have changed");
        return 700;
    }
    memset(run->context->arena, 0xFF, (size_t)engine->arena_bytes); /* activations */
    for (int index = 0; index < engine->count; index++) {
        names[index] = engine->tensors[index].name;
        ranks[index] = run->shapes[index].rank;
        for (int axis = 0; axis < ranks[index]; axis++)
            sizes[index * MOST_AXES + axis] = run->shapes[index].size[axis];
    }
    if (!executor) return zero_outputs(run);
    return executor(engine->number, engine->count, names, (void **)run->addresses, sizes, ranks);
}

static void drop(void *argument) {
    Run *run = argument;
    let_go(run->context);
    free(run);
}

static char enqueue(Context *context, void *stream) {
    Engine *engine = context->engine;
    Run *run = calloc(1, sizeof *run);
    int good = settle_shapes(context, run->shapes);
    enqueues++;
    for (int index = 0; index < engine->count && good; index++) {
        const char *name = engine->tensors[index].name;
        run->addresses[index] = context->addresses[index];
        if (!run->addresses[index])
            good = complain("no address was set for %s", name);
        else if ((uintptr_t)run->addresses[index] % 256) {
            standin_fault("the address of %s is no multiple of 256", name);
            good = complain("misaligned address of %s", name);
        }
    }
    if (good && !context->arena) good = complain("no device memory was set%s", "");
    if (good && standin_is_recording(stream) && context->ran != context->generation) {
        standin_fault("a shape is recorded that has not run before");
        good = 0;
    }
    if (good && standin_is_recording(stream) && standin_refuses_recording())
        good = complain("operation not permitted when stream is capturing%s", "");
    run->context = context;
    run->generation = context->generation;
    if (!good) {
        free(run);
        return 0;
    }
    context->users++;
    if (!standin_is_recording(stream)) context->ran = context->generation;
    return standin_call(stream, compute, drop, run) == 0;
}
static char enqueue_by_name(Context *context, void *stream) { return enqueue(context, stream); }
static char enqueue_by_index(Context *context, void **bindings, void *stream, void *event) {
    (void)event;
    memcpy(context->addresses, bindings, (size_t)context->engine->count * sizeof *bindings);
    return enqueue(context, stream);
}

/* ---- vtables: where each method stands, by family ---- */

static const Method runtime_table[] = {
#if FAMILY == 8
    M(0, deserialize), M(7, get_logger), M(14, runtime_public),
#elif FAMILY == 10
    M(0, runtime_public), M(1, deserialize), M(9, get_logger),
#else
    M(0, runtime_public), M(1, deserialize), M(8, get_logger),
#endif
};
static const Method engine_table[] = {
#if FAMILY == 8
    M(0, tensor_count), M(1, index_of), M(2, name_at), M(3, input_at), M(4, shape_at),
    M(5, dtype_at), M(6, one), M(9, context_with_memory), M(11, context_without_memory),
    M(12, arena_bytes), M(19, label), M(20, one), M(21, profile_at), M(28, nothing),
    M(32, shape_of), M(33, dtype_of), M(36, mode_of), M(42, profile_of), M(43, tensor_count),
    M(44, name_at), M(46, engine_public),
#elif FAMILY == 10
    M(0, engine_public), M(3, context_by_strategy), M(4, context_without_memory),
    M(5, arena_bytes), M(7, label), M(8, one), M(17, shape_of), M(18, dtype_of), M(21, mode_of),
    M(27, profile_of), M(28, tensor_count), M(29, name_at), M(50, arena_bytes),
#else
    M(0, engine_public), M(3, context_by_strategy), M(5, label), M(6, one), M(13, shape_of),
    M(14, dtype_of), M(17, mode_of), M(23, profile_of), M(24, tensor_count), M(25, name_at),
    M(42, arena_bytes),
#endif
};
static const Method context_table[] = {
#if FAMILY == 8
    M(6, engine_of), M(9, set_memory), M(13, set_shape_at), M(22, enqueue_by_index),
    M(27, set_shape_of), M(30, set_address), M(42, enqueue_by_name), M(47, context_public),
#elif FAMILY == 10
    M(0, context_public), M(5, engine_of), M(8, set_memory), M(19, set_shape_of),
    M(22, set_address), M(35, enqueue_by_name), M(47, set_memory_v2),
#else
    M(0, context_public), M(5, engine_of), M(8, set_memory), M(18, set_shape_of),
    M(21, set_address), M(34, enqueue_by_name), M(46, set_memory_v2),
#endif
};

/* pybind11 asks for the class of an object; only its name is looked at. */
static struct { void *vtable; const char *name; } type_info = {NULL, "7StandIn"};

void fill(void **vtable, const Method *methods, size_t count, void (*end)(Object *)) {
    for (int slot = 0; slot < SLOTS; slot++) vtable[slot] = (void *)unmodelled;
    vtable[0] = NULL; /* Itanium ABI: offset to top, type, destructor, deleting destructor */
    vtable[1] = &type_info;
    vtable[2] = vtable[3] = (void *)end;
    for (size_t index = 0; index < count; index++)
        vtable[4 + methods[index].slot] = methods[index].function;
}

void *createInferRuntime_INTERNAL(void *given, int32_t version) {
    Runtime *runtime;
    (void)version;
    /* TensorRT keeps the first logger for all, which may be gone before the second runtime. */
    if (runtimes && given != logger) standin_fault("a second logger");
    logger = given;
    if (cuInit(0)) { /* the bindings make a TypeError of it */
        complain("CUDA initialization failure with error: 35%s", "");
        return NULL;
    }
    fill(runtime_methods, runtime_table, COUNT(runtime_table), end_runtime);
    fill(engine_methods, engine_table, COUNT(engine_table), end_engine);
    fill(context_methods, context_table, COUNT(context_table), end_context);
    fill(runtime_object, NULL, 0, end_runtime);
    fill(engine_object, NULL, 0, end_engine);
    fill(context_object, NULL, 0, end_context);
    runtime = calloc(1, sizeof *runtime);
    runtimes++;
    runtime->vtable = runtime_methods + 2;
    runtime->object = (Object){runtime_object + 2, runtime};
    return &runtime->object;
}

/* What else the bindings link against, builder.c left out. */
void *createInferRefitter_INTERNAL(void) { return NULL; }
void *getPluginRegistry(void) { return NULL; }
void *getBuilderPluginRegistry(void) { return NULL; }
void *createNvOnnxParserRefitter_INTERNAL(void) { return NULL; }
int getNvOnnxParserVersion(void) { return 0; }
int initLibNvInferPlugins(void) { return 1; }
void *_ZN11nvuffparser15createUffParserEv(void) { return NULL; }
void _ZN11nvuffparser8FieldMapC1EPKcPKvNS_9FieldTypeEi(void) {}
void *_ZN14nvcaffeparser117createCaffeParserEv(void) { return NULL; }
void _ZN14nvcaffeparser123shutdownProtobufLibraryEv(void) {}
