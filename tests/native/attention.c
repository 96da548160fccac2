/* Runs the attention kernels on odd shapes, for sanitizers and valgrind, and compares them with
   loops in double.

   Every tensor has memory of exactly its size, and everything that the kernels write starts as
   NaN. Exits with 1 where a result is wrong. */
#include "attention_loops.h"
#include "attention_shapes.h"

/* Freed at the end of a shape. */
static void *kept[96];
static int kept_count;

static void *numbers(int64_t count, int64_t type, double size) {
    void *x = malloc((size_t)count * (size_t)size_of(type));
    for (int64_t i = 0; i < count; i++) write_one(x, type, i, size * draw());
    return kept[kept_count++] = x;
}

static void *filled(int64_t count, int64_t type, double value) {
    void *x = malloc((size_t)count * (size_t)size_of(type));
    for (int64_t i = 0; i < count; i++) write_one(x, type, i, value);
    return kept[kept_count++] = x;
}

static int64_t *places(int64_t count) {
    return kept[kept_count++] = malloc((size_t)count * sizeof(int64_t));
}

/* Indices in a grid of rows of 7, some differences of which lie beyond the table. */
static int64_t *cells(int64_t count, int64_t first) {
    int64_t *x = places(count);
    for (int64_t i = 0; i < count; i++) x[i] = (i + first) % 40 / 7 * 13 + (i + first) % 40 % 7;
    return x;
}

/* A table of vectors around distance 0, of numbers that bfloat16 holds. */
static struct pe_table vectors_by_distance(int64_t heads, int64_t rows, int64_t width, int64_t real,
                                           int64_t slots) {
    int64_t count = heads * rows * width;
    void *weight = numbers(count, real, 0.5);
    for (int64_t i = 0; i < count; i++)
        write_one(weight, real, i, nearbyint(64 * read_one(weight, real, i)) / 64);
    return (struct pe_table){weight, filled(slots * count, real, 0), heads, rows, rows / 2};
}

/* Steps of a tensor whose heads are inside of its tokens, or the other way round. */
static void lay_out(int64_t *stride, int heads_inside, int64_t heads, int64_t tokens, int64_t width) {
    stride[0] = heads * tokens * width;
    stride[1] = heads_inside ? width : tokens * width;
    stride[2] = heads_inside ? heads * width : width;
}

/* A result with heads inside of tokens, as loops write it. */
static void bring_heads_out(void *x, int64_t type, int64_t batch, int64_t heads, int64_t tokens,
                            int64_t width) {
    size_t bytes = (size_t)size_of(type), row = (size_t)width * bytes;
    char *copy = malloc((size_t)(batch * heads * tokens) * row), *to = x;
    memcpy(copy, x, (size_t)(batch * heads * tokens) * row);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t t = 0; t < tokens; t++, to += row)
                memcpy(to, copy + (size_t)((b * tokens + t) * heads + h) * row, row);
    free(copy);
}

static int wrong(const char *name, const struct shape *s, int64_t type, const void *got,
                 const double *wanted, int64_t count, double bound) {
    for (int64_t i = 0; i < count; i++) {
        double error = fabs(read_one(got, type, i) - wanted[i]);
        if (!(error <= bound * (1 + fabs(wanted[i])))) {
            printf("shape %d, type %d: %s[%d] is %g, not %g\n", (int)(s - shapes), (int)type, name,
                   (int)i, read_one(got, type, i), wanted[i]);
            return 1;
        }
    }
    return 0;
}

static void run(struct pe_attention *p) {
    int of_double = p->type == PE_FLOAT64;
    int64_t bytes = (of_double ? pe_attention_double_scratch : pe_attention_float_scratch)(p);
    p->memory = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    /* Bytes of ones are NaNs. */
    memset(p->memory, 0xff, (size_t)bytes);
    (of_double ? pe_attention_double : pe_attention_float)(p);
    free(p->memory);
}

static int check(const struct shape *s, int64_t type) {
    static const int64_t seed = 0x123456789abcdef;
    int64_t real = type == PE_FLOAT64 ? PE_FLOAT64 : PE_FLOAT32, h = s->heads;
    int64_t queries = s->batch * h * s->queries, keys = s->batch * s->key_heads * s->keys;
    int64_t d = s->width, e = s->value_width, slots = s->threads;
    struct pe_attention p = {
        .type = type, .batch = s->batch, .heads = h, .key_heads = s->key_heads,
        .queries = s->queries, .keys = s->keys, .width = d, .value_width = e, .scale = 0.3,
        .q = numbers(queries * d, type, 2), .k = numbers(keys * d, type, 2),
        .v = numbers(keys * e, type, 1), .grad_out = numbers(queries * e, type, 1),
        .out = filled(queries * e, type, NAN), .exact_out = filled(queries * e, real, NAN),
        .peak = filled(queries, real, NAN),
        .mass = filled(queries, real, NAN), .table = {numbers(h * 21, real, 1), filled(slots * h * 21, PE_FLOAT64, 0), h, 21, 12},
        .past = numbers(h, PE_FLOAT64, 0.1),
        .future = numbers(h, PE_FLOAT64, 0.1), .q_offset = numbers(h * s->queries, PE_FLOAT64, 1),
        .k_offset = numbers(h * s->keys, PE_FLOAT64, 1),
        .on_query = {numbers(h * 30 * d, real, 0.5), filled(slots * h * 30 * d, real, 0), h, 30, 28},
        .on_key = {numbers(15 * d, real, 0.5), filled(slots * 15 * d, real, 0), 1, 15, 4},
        .on_value = {numbers(40 * e, real, 0.5), filled(slots * 40 * e, real, 0), 1, 40, 20},
        .network = {{numbers(50, PE_FLOAT64, 1), filled(slots * 50, PE_FLOAT64, 0), 1, 50, 0},
                    numbers(s->batch * s->queries, PE_FLOAT64, 1), s->queries,
                    numbers(13, PE_FLOAT64, 1), numbers(13, PE_FLOAT64, 1),
                    numbers(h * 13, PE_FLOAT64, 0.3), 13, numbers(h, PE_FLOAT64, 1)},
        .network_grads = {filled(slots * s->batch * s->queries, PE_FLOAT64, 0),
                          filled(slots * 13, PE_FLOAT64, 0), filled(slots * 13, PE_FLOAT64, 0),
                          filled(slots * h * 13, PE_FLOAT64, 0), filled(slots * h, PE_FLOAT64, 0)},
        .grid = {{numbers(h * 61, real, 1), filled(slots * h * 61, PE_FLOAT64, 0), h, 61, 30},
                 cells(s->batch * s->queries, 3), s->queries, cells(s->batch * s->keys, 0), s->keys},
        .causal = s->causal, .window = s->window, .sinks = s->sinks, .prefix = s->prefix,
        .chunk = s->chunk,
        .seed = &seed, .dropout = s->dropout,
        .q_grad = filled(queries * d, type, NAN), .k_grad = filled(keys * d, type, NAN),
        .v_grad = filled(keys * e, type, NAN),
        .past_grad = filled(slots * h, PE_FLOAT64, 0),
        .future_grad = filled(slots * h, PE_FLOAT64, 0),
        .q_offset_grad = filled(s->chunks * s->batch * h * s->queries, PE_FLOAT64, 0),
        .k_offset_grad = filled(s->chunks * s->batch * h * s->keys, PE_FLOAT64, 0), .workers = s->threads,
        .chunks = s->chunks, .slots = slots,
    };
    if (s->rows) {
        p.on_query = vectors_by_distance(h, s->rows, d, real, slots);
        p.on_key = vectors_by_distance(1, s->rows, d, real, slots);
        p.on_value = vectors_by_distance(h, s->rows, e, real, slots);
    }
    if (s->steps) {
        p.on_query = p.on_key = (struct pe_table){0};
        /* Small, for between two pieces of the line rounding chooses the gradient. */
        p.by_count = numbers(queries * s->steps, real, 0.02);
        p.by_count_grad = filled(queries * s->steps, real, NAN);
        p.by_count_steps = s->steps;
    }
    if ((s - shapes) % 3) {
        p.sink = numbers(h, PE_FLOAT64, 2);
        p.sink_grad = filled(slots * h, PE_FLOAT64, 0);
    }
    int64_t g = s->key_heads;
    /* Where heads of results lie, in turns. */
    const int inside = (int)(s - shapes) % 2;
    lay_out(p.q_stride, 0, h, s->queries, d);
    lay_out(p.k_stride, 0, g, s->keys, d);
    lay_out(p.v_stride, 0, g, s->keys, e);
    lay_out(p.grad_stride, 0, h, s->queries, e);
    lay_out(p.out_stride, inside, h, s->queries, e);
    lay_out(p.q_grad_stride, inside, h, s->queries, d);
    lay_out(p.k_grad_stride, inside, g, s->keys, d);
    lay_out(p.v_grad_stride, inside, g, s->keys, e);
    lay_out(p.q_far_grad_stride, inside, h, s->queries, d);
    lay_out(p.k_far_grad_stride, inside, g, s->keys, d);

    if (s->zone) {
        p.zone = s->zone;
        p.q_far = numbers(queries * d, type, 2);
        p.k_far = numbers(keys * d, type, 2);
        p.q_far_grad = filled(queries * d, type, NAN);
        p.k_far_grad = filled(keys * d, type, NAN);
        memcpy(p.q_far_stride, p.q_stride, sizeof p.q_far_stride);
        memcpy(p.k_far_stride, p.k_stride, sizeof p.k_far_stride);
    }

    int64_t *q_order = places(s->batch * s->queries), *k_order = places(s->batch * s->keys);
    int64_t *q_document = places(s->batch * s->queries), *k_document = places(s->batch * s->keys);
    uint8_t *valid = (uint8_t *)places(s->batch * s->keys);
    int64_t shift = s->keys - s->queries;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t j = 0; j < s->keys; j++) {
            int64_t length = s->documents ? 37 + 20 * b : s->keys, at = b * s->keys + j;
            k_document[at] = j / length;
            k_order[at] = s->first + j % length;
            valid[at] = !s->padding || (b ? j < s->keys - 9 : j >= 40);
            if (j < shift) continue;
            q_document[b * s->queries + j - shift] = k_document[at];
            q_order[b * s->queries + j - shift] = k_order[at];
        }
    p.q_tokens = (struct pe_tokens){q_order, s->queries, q_document, s->queries};
    p.k_tokens = (struct pe_tokens){k_order, s->keys, k_document, s->keys};
    p.valid = valid;
    p.valid_step = s->keys;

    double *out = filled(queries * e, PE_FLOAT64, 0), *v_grad = filled(keys * e, PE_FLOAT64, 0);
    double *steps_grad = filled(queries * s->steps, PE_FLOAT64, 0);
    double *sink_grad = filled(h, PE_FLOAT64, 0);
    double *q_grads[2], *k_grads[2];
    for (int zone = 0; zone < 2; zone++) {
        q_grads[zone] = filled(queries * d, PE_FLOAT64, 0);
        k_grads[zone] = filled(keys * d, PE_FLOAT64, 0);
    }
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t n = 0; n < h; n++)
            for (int64_t i = 0; i < s->queries; i++)
                by_loops(&p, real, b, n, i, out + ((b * h + n) * s->queries + i) * e, q_grads,
                         k_grads, v_grad, steps_grad, sink_grad);

    p.learns = 1;
    run(&p);
    p.backward = 1;
    run(&p);
    if (inside) {
        bring_heads_out(p.out, type, s->batch, h, s->queries, e);
        bring_heads_out(p.exact_out, real, s->batch, h, s->queries, e);
        bring_heads_out(p.q_grad, type, s->batch, h, s->queries, d);
        bring_heads_out(p.k_grad, type, s->batch, g, s->keys, d);
        bring_heads_out(p.v_grad, type, s->batch, g, s->keys, e);
    }
    if (inside && s->zone) {
        bring_heads_out(p.q_far_grad, type, s->batch, h, s->queries, d);
        bring_heads_out(p.k_far_grad, type, s->batch, g, s->keys, d);
    }
    const double bounds[] = {
        [PE_FLOAT32] = 3e-5, [PE_BFLOAT16] = 0.05, [PE_FLOAT64] = 1e-11, [PE_FLOAT16] = 0.01};
    double bound = bounds[type];
    int failed = wrong("out", s, type, p.out, out, queries * e, bound) |
                 wrong("exact_out", s, real, p.exact_out, out, queries * e, real == type ? bound : 1e-4) |
                 wrong("q_grad", s, type, p.q_grad, q_grads[0], queries * d, bound) |
                 wrong("k_grad", s, type, p.k_grad, k_grads[0], keys * d, bound) |
                 wrong("v_grad", s, type, p.v_grad, v_grad, keys * e, bound);
    if (s->steps) failed |= wrong("by_count_grad", s, real, p.by_count_grad, steps_grad, queries * s->steps, real == type ? bound : 1e-4);
    for (int64_t n = h; p.sink && n < slots * h; n++) p.sink_grad[n % h] += p.sink_grad[n];
    /* A sum over all queries. */
    if (p.sink) failed |= wrong("sink_grad", s, PE_FLOAT64, p.sink_grad, sink_grad, h, 10 * bound);
    if (s->zone)
        failed |= wrong("q_far_grad", s, type, p.q_far_grad, q_grads[1], queries * d, bound) |
                  wrong("k_far_grad", s, type, p.k_far_grad, k_grads[1], keys * d, bound);
    while (kept_count) free(kept[--kept_count]);
    return failed;
}

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int64_t type = PE_FLOAT32; type <= PE_FLOAT16; type++) failed |= check(shapes + i, type);
    return failed;
}
