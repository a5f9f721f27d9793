/* A stand-in for TensorRT's builder and ONNX parser, for NVIDIA's own Python bindings.
 *
 * It builds nothing. A "plan" is the text that libnvinfer.c loads: number (a hash of the ONNX
 * file), tensors, profile; and lines "# ..." that tell how it was built: flags, workspace, which
 * layers were pinned. Tests read these lines. As TensorRT does, it gives a layer the name of its
 * node, and adds layers of the parser's own between them.
 *
 * Its rules: every free size has a profile, an INT32 layer gets no FP32 precision, half-precision
 * inputs need the FP16 flag or a strongly typed network. Faults come from the environment, since
 * builds run in a process of their own: EDGEFORMER_STANDIN_BUILD holds words such as
 *     slow=SECONDS  needs=MIB  most=MIB  kill=MIB  crash=1  complain=TEXT_WITH_UNDERSCORES
 *     unsupported=OPERATOR
 * (needs: less workspace finds no implementation; most: more runs out of memory; kill: from here
 * on the process is killed, as the kernel does when memory ends.)
 */
#include "nvinfer.h"
#include "onnx.h"

#include <signal.h>
#include <unistd.h>

enum { MOST_LAYERS = 20000, BOOL = 4 };

typedef struct Tensor {
    void **vtable;
    Object object;
    char *name;
    int dtype, is_input, is_output, is_shape, formats;
    const Declared *declared; /* of inputs and outputs */
} Tensor;

typedef struct Layer {
    void **vtable;
    Object object;
    char *name;
    int input_count, output_count, precision; /* -1: not set */
    Tensor *inputs[NODE_VALUES], *outputs[NODE_VALUES];
    int output_types[NODE_VALUES];
} Layer;

typedef struct Profile {
    void **vtable;
    Object object;
    int count;
    char names[FILE_VALUES][96];
    Dims sizes[FILE_VALUES][3];
} Profile;

typedef struct Bytes { /* IHostMemory */
    void **vtable;
    Object object;
    char *data;
    size_t size;
} Bytes;

typedef struct Network {
    void **vtable;
    Object object;
    uint32_t flags, hash;
    Graph graph;
    Tensor **tensors;
    Layer **layers;
    int tensor_count, layer_count, input_count, output_count;
    Tensor *inputs[FILE_VALUES], *outputs[FILE_VALUES];
} Network;

typedef struct Config {
    void **vtable;
    Object object;
    uint32_t flags, tactics;
    long long workspace, cached; /* cached: bytes of the timing cache that was given */
    Profile *profile;
} Config;

typedef struct Simple { /* builder, timing cache */
    void **vtable;
    Object object;
} Simple;

typedef struct Parser {
    void **vtable;
    Network *network;
    void *logger;
    int failed, code, node;
    char text[256];
} Parser;

typedef struct ParserError {
    void **vtable;
    Parser *parser;
} ParserError;

static void *logger;
const char *standin_fault_text(void); /* libcuda.c */

/* Every kind of object: its methods, and one implementation with a public face. */
#define KIND(kind, Type)                                                       \
    static void *kind##_methods[SLOTS], *kind##_object[SLOTS];                 \
    static void kind##_end(Object *object) { (void)object; /* leaks */ }       \
    static Type *new_##kind(void) {                                            \
        Type *made = calloc(1, sizeof *made);                                  \
        fill(kind##_methods, kind##_table, COUNT(kind##_table), kind##_end);   \
        fill(kind##_object, NULL, 0, kind##_end);                              \
        made->vtable = kind##_methods + 2;                                     \
        made->object = (Object){kind##_object + 2, made};                      \
        return made;                                                           \
    }
#if FAMILY == 8
#define BY_FAMILY(eight, ten, eleven) eight
#elif FAMILY == 10
#define BY_FAMILY(eight, ten, eleven) ten
#else
#define BY_FAMILY(eight, ten, eleven) eleven
#endif

/* ---- faults that a test asks for ---- */

static const char *asked(const char *word) {
    static char value[256];
    const char *found = getenv("EDGEFORMER_STANDIN_BUILD");
    size_t size = strlen(word);
    for (; found && *found; found += strcspn(found, " "), found += strspn(found, " "))
        if (!strncmp(found, word, size) && found[size] == '=') {
            snprintf(value, sizeof value, "%.*s", (int)strcspn(found + size + 1, " "), found + size + 1);
            return value;
        }
    return NULL;
}
static double number_asked(const char *word, double otherwise) {
    return asked(word) ? atof(asked(word)) : otherwise;
}
static int told(const char *format, const char *name) { return log_error(logger, format, name); }

/* ---- tensors ---- */

static const char *tensor_name(Tensor *tensor) { return tensor->name; }
static void tensor_set_dtype(Tensor *tensor, int32_t dtype) { tensor->dtype = dtype; }
static int32_t tensor_dtype(Tensor *tensor) { return tensor->dtype; }
static char tensor_is_input(Tensor *tensor) { return (char)tensor->is_input; }
static char tensor_is_output(Tensor *tensor) { return (char)tensor->is_output; }
static char tensor_is_shape(Tensor *tensor) { return (char)tensor->is_shape; }
static void tensor_set_formats(Tensor *tensor, uint32_t formats) { tensor->formats = (int)formats; }
static Dims tensor_shape(Tensor *tensor) {
    Dims dims = {0};
    const Declared *declared = tensor->declared;
    if (!declared) return dims;
    dims.rank = declared->rank;
    for (int axis = 0; axis < dims.rank; axis++) {
        const char *size = declared->size[axis];
        dims.size[axis] = *size >= '0' && *size <= '9' ? atoll(size) : -1;
    }
    return dims;
}
static const Method tensor_table[] = {
    M(1, tensor_name), M(3, tensor_shape), M(BY_FAMILY(4, 4, 90), tensor_set_dtype),
    M(BY_FAMILY(5, 5, 4), tensor_dtype), M(BY_FAMILY(7, 7, 5), tensor_is_input),
    M(BY_FAMILY(8, 8, 6), tensor_is_output), M(BY_FAMILY(17, 17, 11), tensor_set_formats),
    M(BY_FAMILY(19, 19, 13), tensor_is_shape),
};
KIND(tensor, Tensor)

/* ---- layers ---- */

static int32_t layer_type(void) { return 0; }
static const char *layer_name(Layer *layer) { return layer->name; }
static int32_t layer_input_count(Layer *layer) { return layer->input_count; }
static int32_t layer_output_count(Layer *layer) { return layer->output_count; }
static void *layer_input(Layer *layer, int32_t index) {
    return layer->inputs[index] ? &layer->inputs[index]->object : NULL;
}
static void *layer_output(Layer *layer, int32_t index) { return &layer->outputs[index]->object; }
static void layer_set_precision(Layer *layer, int32_t dtype) { layer->precision = dtype; }
static void layer_set_output(Layer *layer, int32_t index, int32_t dtype) {
    layer->output_types[index] = dtype;
}
static const Method layer_table[] = {
    M(0, layer_type), M(2, layer_name), M(3, layer_input_count), M(4, layer_input),
    M(5, layer_output_count), M(6, layer_output),
#if FAMILY < 11
    M(8, layer_set_precision), M(12, layer_set_output),
#endif
};
KIND(layer, Layer)

/* ---- networks ---- */

static int32_t layer_count(Network *network) { return network->layer_count; }
static void *layer_at(Network *network, int32_t index) { return &network->layers[index]->object; }
static int32_t input_count(Network *network) { return network->input_count; }
static void *input_at(Network *network, int32_t index) { return &network->inputs[index]->object; }
static int32_t output_count(Network *network) { return network->output_count; }
static void *output_at(Network *network, int32_t index) { return &network->outputs[index]->object; }
#define AT(slot) BY_FAMILY((slot) + 5, slot, slot)
static const Method network_table[] = {
    M(AT(10), layer_count), M(AT(11), layer_at), M(AT(12), input_count), M(AT(13), input_at),
    M(AT(14), output_count), M(AT(15), output_at),
};
KIND(network, Network)

static Tensor *add_tensor(Network *network, const char *name, int dtype) {
    Tensor *made = new_tensor();
    made->name = strdup(name);
    made->dtype = dtype;
    MORE(network->tensors, network->tensor_count);
    return network->tensors[network->tensor_count++] = made;
}

static Tensor *tensor_named(const Network *network, const char *name) {
    for (int index = network->tensor_count - 1; index >= 0; index--)
        if (!strcmp(network->tensors[index]->name, name)) return network->tensors[index];
    return NULL;
}

static int dtype_of_element(long element) {
    switch (element) {
        case 1: case 11: return FLOAT;
        case 10: return HALF;
        case 9: return BOOL;
        default: return INT32; /* INT64 too */
    }
}

static Layer *add_layer(Network *network, const char *name) {
    Layer *made = new_layer();
    made->name = strdup(name);
    made->precision = -1;
    for (int index = 0; index < NODE_VALUES; index++) made->output_types[index] = -1;
    MORE(network->layers, network->layer_count);
    return network->layers[network->layer_count++] = made;
}

/* A layer that the parser adds of its own accord, with one input and one output. The names are
 * those that TensorRT 8 and a real parser of generation 11 (TensorRT for RTX 1.7) give. */
static Tensor *added(Network *network, const char *kind, Tensor *source, int dtype) {
    char text[64], output[80];
    Layer *layer;
    if (FAMILY == 8)
        snprintf(text, sizeof text, "(Unnamed Layer* %d) [%s]", network->layer_count, kind);
    else
        snprintf(text, sizeof text, "ONNXTRT_%s_%d", kind, network->layer_count);
    snprintf(output, sizeof output, "%s_output", text);
    layer = add_layer(network, text);
    layer->inputs[layer->input_count++] = source;
    return layer->outputs[layer->output_count++] = add_tensor(network, output, dtype);
}

static void add_node(Network *network, const Node *node) {
    Tensor *inputs[NODE_VALUES], *made;
    int arithmetic = strstr(" Add Sub Mul Div Pow Max Min ", node->operator) != NULL;
    Layer *layer;
    for (int index = 0; index < node->input_count; index++) {
        inputs[index] = tensor_named(network, node->inputs[index]);
        if (arithmetic && index == 1 && inputs[index]) /* so that ranks agree */
            inputs[index] = added(network, "Shuffle", inputs[index], inputs[index]->dtype);
    }
    if (!strcmp(node->operator, "Slice") && inputs[0]) /* where it ends depends on the size */
        added(network, "Shape", inputs[0], INT32)->is_shape = 1;
    layer = add_layer(network, node->name);
    for (int index = 0; index < node->input_count; index++)
        if (inputs[index]) layer->inputs[layer->input_count++] = inputs[index];
    for (int index = 0; index < node->output_count; index++) {
        int dtype = layer->input_count ? layer->inputs[0]->dtype : FLOAT;
        if (!strcmp(node->operator, "Cast")) dtype = dtype_of_element(node->to);
        if (!strcmp(node->operator, "Shape")) dtype = INT32;
        made = add_tensor(network, node->outputs[index], dtype);
        made->is_shape = !strcmp(node->operator, "Shape");
        layer->outputs[layer->output_count++] = made;
    }
}

/* ---- the parser; its methods stand in its own vtable, the destructor somewhere among them ---- */

static int fail(Parser *parser, int code, int node, const char *text) {
    parser->failed = 1;
    parser->code = code;
    parser->node = node;
    snprintf(parser->text, sizeof parser->text, "%s", text);
    return 0;
}

static int add_graph(Parser *parser, Network *network) {
    Graph *graph = &network->graph;
    for (int index = 0; index < graph->stored_count; index++) {
        const Declared *stored = &graph->stored[index];
        Layer *constant = add_layer(network, stored->name);
        constant->outputs[constant->output_count++] =
            add_tensor(network, stored->name, dtype_of_element(stored->element));
    }
    for (int index = 0; index < graph->input_count; index++) {
        const Declared *declared = &graph->inputs[index];
        Tensor *made = add_tensor(network, declared->name, dtype_of_element(declared->element));
        made->is_input = 1;
        made->declared = declared;
        network->inputs[network->input_count++] = made;
    }
    for (int index = 0; index < graph->node_count; index++) {
        if (asked("unsupported") && !strcmp(graph->nodes[index].operator, asked("unsupported")))
            return fail(parser, 8, index, "No importer registered for op");
        add_node(network, &graph->nodes[index]);
    }
    for (int index = 0; index < graph->output_count; index++) {
        Tensor *made = tensor_named(network, graph->outputs[index].name);
        if (!made) return fail(parser, 4, -1, "an output that no node makes");
        made->is_output = 1;
        made->declared = &graph->outputs[index];
        network->outputs[network->output_count++] = made;
    }
    return 1;
}

static char parse_from_file(Parser *parser, const char *path, int verbosity) {
    FILE *file = fopen(path, "rb");
    unsigned char *bytes;
    long size;
    Network *network = parser->network;
    (void)verbosity;
    if (!file) return (char)fail(parser, 3, -1, "cannot open the file");
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    bytes = malloc((size_t)size + 1);
    size = (long)fread(bytes, 1, (size_t)size, file);
    fclose(file);
    network->hash = 2166136261u;
    for (long index = 0; index < size; index++) network->hash = (network->hash ^ bytes[index]) * 16777619u;
    if (!read_onnx((Part){bytes, bytes + size}, &network->graph))
        return (char)fail(parser, 3, -1, "the file holds no graph");
    return (char)add_graph(parser, network);
}
static int error_count(Parser *parser) { return parser->failed; }
static void clear_errors(Parser *parser) { parser->failed = 0; }
static int error_code(ParserError *error) { return error->parser->code; }
static const char *error_text(ParserError *error) { return error->parser->text; }
static const char *error_place(void) { return "stand-in"; }
static int error_line(void) { return 1; }
static int error_node(ParserError *error) { return error->parser->node; }
static void *error_methods[SLOTS], *parser_methods[SLOTS];
static void *error_at(Parser *parser, int index) {
    static ParserError found;
    static void *const table[] = {error_code, error_text, error_place, error_line, error_place,
                                  error_node, error_place, error_place};
    (void)index;
    fill(error_methods, NULL, 0, NULL);
    memcpy(error_methods + 2, table, sizeof table);
    found = (ParserError){error_methods + 2, parser};
    return &found;
}

void *createNvOnnxParser_INTERNAL(Object *network, void *given, int version) {
    Parser *parser = calloc(1, sizeof *parser);
    const int errors = BY_FAMILY(6, 5, 3);
    (void)version;
    fill(parser_methods, NULL, 0, NULL);
    for (int slot = 2; slot < SLOTS; slot++) parser_methods[slot] = (void *)unmodelled;
    parser_methods[2 + 1] = (void *)parse_from_file;
    parser_methods[2 + errors] = (void *)error_count;
    parser_methods[2 + errors + 1] = (void *)error_at;
    parser_methods[2 + errors + 2] = (void *)clear_errors;
    /* The destructors come next in all families, and pybind11 calls the second one. */
    parser_methods[2 + errors + 3] = parser_methods[2 + errors + 4] = (void *)clear_errors;
    parser->vtable = parser_methods + 2;
    parser->network = network->implementation;
    parser->logger = given;
    return parser;
}

/* ---- profiles, memory, timing caches ---- */

static char set_dimensions(Profile *profile, const char *name, int32_t which, const Dims *dims) {
    int index = 0;
    while (index < profile->count && strcmp(profile->names[index], name)) index++;
    if (index == profile->count) snprintf(profile->names[profile->count++], 96, "%s", name);
    profile->sizes[index][which].rank = dims->rank;
    for (int axis = 0; axis < dims->rank; axis++)
        profile->sizes[index][which].size[axis] = dims->size[axis];
    return 1;
}
#if FAMILY == 8
static char set_dimensions_of(Profile *profile, const char *name, int32_t which, Dims dims) {
    return set_dimensions(profile, name, which, &dims);
}
#else
#define set_dimensions_of set_dimensions
#endif
static const Method profile_table[] = {M(0, set_dimensions_of)};
KIND(profile, Profile)

static void *bytes_data(Bytes *bytes) { return bytes->data; }
static size_t bytes_size(Bytes *bytes) { return bytes->size; }
static int32_t bytes_type(void) { return 2; }
static const Method bytes_table[] = {M(0, bytes_data), M(1, bytes_size), M(2, bytes_type)};
KIND(bytes, Bytes)

static void *new_text(char *text) {
    Bytes *made = new_bytes();
    made->data = text;
    made->size = strlen(text);
    return &made->object;
}

static void *cache_serialize(void) { return new_text(strdup("STANDIN TIMINGS\n")); }
static const Method cache_table[] = {M(0, cache_serialize)};
KIND(cache, Simple)

/* ---- configs ---- */

static void set_flag(Config *config, int32_t flag) { config->flags |= 1u << flag; }
static void clear_flag(Config *config, int32_t flag) { config->flags &= ~(1u << flag); }
static void set_workspace(Config *config, size_t bytes) { config->workspace = (long long)bytes; }
static void set_pool(Config *config, int32_t pool, size_t bytes) {
    if (pool) standin_fault("a memory pool that is not the workspace");
    set_workspace(config, bytes);
}
static char set_tactics(Config *config, uint32_t tactics) {
    config->tactics = tactics;
    return 1;
}
static int32_t add_profile(Config *config, Object *profile) {
    config->profile = profile->implementation;
    return 0;
}
static void *create_cache(Config *config, const void *data, size_t size) {
    if (size && (size != 16 || memcmp(data, "STANDIN TIMINGS\n", 16))) {
        told("the timing cache is damaged%s", "");
        return NULL;
    }
    config->cached = (long long)size;
    return &new_cache()->object;
}
static char set_cache(void) { return 1; }
static void *get_cache(void) { return &new_cache()->object; }
static const Method config_table[] = {
    M(BY_FAMILY(13, 9, 7), set_flag), M(BY_FAMILY(12, 8, 6), clear_flag),
    M(BY_FAMILY(45, 41, 30), set_pool), M(BY_FAMILY(40, 36, 25), set_tactics),
    M(BY_FAMILY(27, 23, 21), add_profile), M(BY_FAMILY(42, 38, 27), create_cache),
    M(BY_FAMILY(43, 39, 28), set_cache), M(BY_FAMILY(44, 40, 29), get_cache),
#if FAMILY == 8
    M(8, set_workspace),
#endif
};
KIND(config, Config)

/* ---- building ---- */

static int has(const Config *config, int flag) { return FAMILY < 11 && config->flags >> flag & 1; }
static int is_typed(const Network *network) { /* bit 1 was another flag in 8 */
    return FAMILY == 11 || (FAMILY == 10 && network->flags >> 1 & 1);
}

/* Where an input stands in the profile; -1 if its shape is fixed, -2 for a mistake. */
static int profiled(const Profile *profile, Tensor *tensor) {
    Dims shape = tensor_shape(tensor);
    int found = -1, is_free = 0;
    for (int axis = 0; axis < shape.rank; axis++) is_free |= shape.size[axis] < 0;
    for (int index = 0; profile && index < profile->count; index++)
        if (!strcmp(profile->names[index], tensor->name)) found = index;
    if (!is_free && found < 0) return -1;
    if (found < 0) return told("no optimization profile has been defined for %s", tensor->name) - 2;
    for (int axis = 0; axis < shape.rank; axis++) {
        Size least = profile->sizes[found][0].size[axis], best = profile->sizes[found][1].size[axis];
        Size most = profile->sizes[found][2].size[axis];
        int fits = least >= 1 && least <= best && best <= most;
        if (shape.size[axis] >= 0) fits &= least == shape.size[axis] && most == least;
        if (profile->sizes[found][2].rank != shape.rank || !fits)
            return told("the profile of %s contradicts its shape", tensor->name) - 2;
    }
    return found;
}

static int check_types(const Network *network, const Config *config) {
    const int fp16 = 0, int8 = 1;
    for (int index = 0; index < network->layer_count; index++) {
        const Layer *layer = network->layers[index];
        int integers = layer->input_count && layer->inputs[0]->dtype == INT32;
        integers |= layer->output_count && layer->outputs[0]->dtype != FLOAT;
        if (layer->precision >= 0 && integers)
            return told("%s computes INT32 and cannot have another precision", layer->name);
        for (int output = 0; output < layer->output_count; output++)
            if (layer->output_types[output] >= 0 &&
                (layer->outputs[output]->dtype != FLOAT || layer->outputs[output]->is_shape))
                return told("an output of %s cannot have another type", layer->name);
    }
    for (int index = 0; index < network->input_count; index++)
        if (network->inputs[index]->dtype == HALF && !is_typed(network) && !has(config, fp16))
            return told("%s is half precision without the FP16 flag", network->inputs[index]->name);
    for (int index = 0; index < network->graph.node_count; index++)
        if (!strcmp(network->graph.nodes[index].operator, "QuantizeLinear") && !is_typed(network) &&
            !has(config, int8))
            return told("%s needs the INT8 flag", network->graph.nodes[index].name);
    return 1;
}

static int survives(const Config *config) {
    double mib = (double)(config->workspace >> 20);
    usleep((useconds_t)(1e6 * number_asked("slow", 0)));
    if (mib >= number_asked("kill", 1e9)) raise(SIGKILL);
    if (asked("crash")) raise(SIGSEGV);
    if (mib > number_asked("most", 1e9))
        return told("Tactic Device request: 538MB Available: 166MB. Device memory is insufficient to use tactic.%s", "");
    if (mib < number_asked("needs", 0))
        return told("10: [optimizer.cpp::computeCosts::2011] Error Code 10: Internal Error (Could not find any implementation for node %s.)",
                    "{ForeignNode[blocks.0/attention/MatMul...blocks.0/Add]}");
    if (asked("complain")) {
        char text[256];
        snprintf(text, sizeof text, "%s", asked("complain"));
        for (char *at = text; *at; at++)
            if (*at == '_') *at = ' ';
        return told("%s", text);
    }
    return 1;
}

static void write_tensor(FILE *plan, Tensor *tensor, const Profile *profile) {
    const Declared *declared = tensor->declared;
    int at = tensor->is_input ? profiled(profile, tensor) : -1;
    fprintf(plan, "%s %s %d ", tensor->is_input ? "input" : "output", tensor->name, tensor->dtype);
    for (int axis = 0; axis < declared->rank; axis++)
        fprintf(plan, "%s%s", axis ? "," : "", declared->size[axis]);
    for (int which = 0; tensor->is_input && which < 3; which += 2) {
        Dims shape = at < 0 ? tensor_shape(tensor) : profile->sizes[at][which];
        for (int axis = 0; axis < shape.rank; axis++)
            fprintf(plan, "%s%lld", axis ? "," : " ", (long long)shape.size[axis]);
    }
    fprintf(plan, "\n");
}

static void write_remarks(FILE *plan, const Network *network, const Config *config) {
    for (int flag = 0; flag < 32; flag++)
        if (config->flags >> flag & 1) fprintf(plan, "# flag %d\n", flag);
    fprintf(plan, "# network %u\n# workspace %lld\n", network->flags, config->workspace >> 20);
    fprintf(plan, "# timings %lld\n", config->cached);
    if (config->tactics != 0xFFFFFFFFu) fprintf(plan, "# tactics %u\n", config->tactics);
    for (int index = 0; index < network->input_count; index++)
        fprintf(plan, "# formats %d %s\n", network->inputs[index]->formats, network->inputs[index]->name);
    for (int index = 0; index < network->layer_count; index++) {
        const Layer *layer = network->layers[index];
        fprintf(plan, "# layer %d %d %s\n", layer->precision, layer->output_types[0], layer->name);
    }
}

static void *build(Simple *builder, Object *network_face, Object *config_face) {
    Network *network = network_face->implementation;
    Config *config = config_face->implementation;
    const int half_cache = network->output_count > 1 && network->outputs[1]->dtype == HALF;
    char *text;
    size_t size;
    FILE *plan;
    (void)builder;
    for (int index = 0; index < network->input_count; index++)
        if (profiled(config->profile, network->inputs[index]) == -2) return NULL;
    if (!check_types(network, config) || !survives(config)) return NULL;
    if (*standin_fault_text()) return told("stand-in: %s", standin_fault_text()), NULL;
    plan = open_memstream(&text, &size);
    fprintf(plan, "STANDIN %u 65536\n", (network->hash >> 2 << 1) | (unsigned)half_cache);
    for (int index = 0; index < network->input_count; index++)
        write_tensor(plan, network->inputs[index], config->profile);
    for (int index = 0; index < network->output_count; index++)
        write_tensor(plan, network->outputs[index], config->profile);
    write_remarks(plan, network, config);
    fclose(plan);
    return new_text(text);
}

/* ---- builders ---- */

static char yes(void) { return 1; }
static char fast_int8(void) { return asked("int8") != NULL; }
static void *get_logger(void) { return logger; }
static void *create_network(Simple *builder, uint32_t flags) {
    Network *made = new_network();
    (void)builder;
    made->flags = flags;
    return &made->object;
}
static void *create_config(void) {
    Config *made = new_config();
    made->flags = BY_FAMILY(1u << 7, 1u << 6, 1u << 6); /* TF32 is on until somebody clears it */
    made->tactics = 0xFFFFFFFFu;
    return &made->object;
}
static void *create_profile(void) { return &new_profile()->object; }
static const Method builder_table[] = {
#if FAMILY < 11
    M(BY_FAMILY(2, 0, 0), yes), M(BY_FAMILY(3, 1, 0), fast_int8),
#endif
    M(BY_FAMILY(9, 6, 4), create_network), M(BY_FAMILY(7, 5, 3), create_config),
    M(BY_FAMILY(10, 7, 5), create_profile), M(BY_FAMILY(15, 12, 9), build),
    M(BY_FAMILY(17, 14, 11), get_logger),
};
KIND(builder, Simple)

void *createInferBuilder_INTERNAL(void *given, int32_t version) {
    (void)version;
    logger = given;
    if (cuInit(0)) {
        told("CUDA initialization failure with error: 35%s", "");
        return NULL;
    }
    return &new_builder()->object;
}
