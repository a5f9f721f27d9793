/* Just enough of an ONNX file for builder.c: nodes with their names, and typed inputs and outputs. */
#ifndef STANDIN_ONNX_H
#define STANDIN_ONNX_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_VALUES = 16, FILE_VALUES = 600 };

typedef struct Node {
    char *operator, *name, *inputs[NODE_VALUES], *outputs[NODE_VALUES];
    int input_count, output_count;
    long to; /* the type that a Cast gives */
} Node;

typedef struct Declared { /* an input, an output or a stored tensor */
    char *name;
    long element;
    int rank;
    char size[8][16]; /* a number, or the name of a free size */
} Declared;

typedef struct Graph {
    Node *nodes;
    Declared inputs[FILE_VALUES], outputs[FILE_VALUES], *stored;
    int node_count, input_count, output_count, stored_count;
} Graph;

typedef struct Part { /* a message, or what is left of it */
    const unsigned char *at, *end;
} Part;

typedef struct Field {
    int number, wire;
    uint64_t value;
    Part bytes;
} Field;

static uint64_t read_varint(Part *part) {
    uint64_t value = 0;
    for (int shift = 0; part->at < part->end && shift < 64; shift += 7) {
        unsigned char byte = *part->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) break;
    }
    return value;
}

/* The next field of a message; 0 at its end, or where it is no message. */
static int next_field(Part *part, Field *field) {
    uint64_t tag, size;
    if (part->at >= part->end) return 0;
    tag = read_varint(part);
    field->number = (int)(tag >> 3);
    field->wire = (int)(tag & 7);
    if (field->wire == 0) {
        field->value = read_varint(part);
        return 1;
    }
    size = field->wire == 2 ? read_varint(part) : field->wire == 5 ? 4 : 8;
    if ((field->wire != 1 && field->wire != 2 && field->wire != 5) ||
        size > (uint64_t)(part->end - part->at))
        return 0;
    field->bytes = (Part){part->at, part->at + size};
    part->at += size;
    return 1;
}

static char *text_of(Part part) { return strndup((const char *)part.at, (size_t)(part.end - part.at)); }

static void read_attribute(Part part, Node *node) {
    Field field;
    long integer = 0;
    char *name = NULL;
    while (next_field(&part, &field)) {
        if (field.number == 1) name = text_of(field.bytes);
        if (field.number == 3) integer = (long)field.value;
    }
    if (name && !strcmp(name, "to")) node->to = integer;
    free(name);
}

static Node read_node(Part part) {
    Node node = {0};
    Field field;
    while (next_field(&part, &field)) {
        if (field.number == 1 && node.input_count < NODE_VALUES)
            node.inputs[node.input_count++] = text_of(field.bytes);
        if (field.number == 2 && node.output_count < NODE_VALUES)
            node.outputs[node.output_count++] = text_of(field.bytes);
        if (field.number == 3) node.name = text_of(field.bytes);
        if (field.number == 4) node.operator = text_of(field.bytes);
        if (field.number == 5) read_attribute(field.bytes, &node);
    }
    if (!node.name) node.name = strdup("");
    return node;
}

static void read_shape(Part part, Declared *found) {
    Field field, size;
    while (next_field(&part, &field) && found->rank < 8) {
        char *text = found->size[found->rank++];
        while (next_field(&field.bytes, &size)) {
            if (size.number == 1) snprintf(text, 16, "%ld", (long)size.value);
            if (size.number == 2) snprintf(text, 16, "%.*s", (int)(size.bytes.end - size.bytes.at), size.bytes.at);
        }
    }
}

static Declared read_declared(Part part) {
    Declared found = {0};
    Field field, type, tensor;
    while (next_field(&part, &field)) {
        if (field.number == 1) found.name = text_of(field.bytes);
        while (field.number == 2 && next_field(&field.bytes, &type))
            while (type.number == 1 && next_field(&type.bytes, &tensor)) {
                if (tensor.number == 1) found.element = (long)tensor.value;
                if (tensor.number == 2) read_shape(tensor.bytes, &found);
            }
    }
    return found;
}

static Declared read_stored(Part part) {
    Declared found = {0};
    Field field;
    while (next_field(&part, &field)) {
        if (field.number == 2) found.element = (long)field.value;
        if (field.number == 8) found.name = text_of(field.bytes);
    }
    return found;
}

#define MORE(array, count) array = realloc(array, ((size_t)(count) + 1) * sizeof *(array))

/* 1, or 0 where the bytes hold no graph. */
static int read_onnx(Part file, Graph *graph) {
    Field model, field;
    int seen = 0;
    memset(graph, 0, sizeof *graph);
    while (next_field(&file, &model)) {
        if (model.number != 7 || model.wire != 2) continue;
        while (next_field(&model.bytes, &field)) {
            seen = 1;
            if (field.number == 1) {
                MORE(graph->nodes, graph->node_count);
                graph->nodes[graph->node_count++] = read_node(field.bytes);
            }
            if (field.number == 5) {
                MORE(graph->stored, graph->stored_count);
                graph->stored[graph->stored_count++] = read_stored(field.bytes);
            }
            if (field.number == 11 && graph->input_count < FILE_VALUES)
                graph->inputs[graph->input_count++] = read_declared(field.bytes);
            if (field.number == 12 && graph->output_count < FILE_VALUES)
                graph->outputs[graph->output_count++] = read_declared(field.bytes);
        }
    }
    return seen;
}

#endif
