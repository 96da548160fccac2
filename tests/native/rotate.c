/* Runs the rotation kernel on odd shapes, for sanitizers and valgrind, and compares it with loops
   in double.

   Every tensor has memory of exactly its size, and outputs start as NaN. Exits with 1 where a
   result is wrong. */
#include "numbers.h"

struct shape {
    int64_t batch, heads, tokens, dim, pairs, start, by_token, per_head, threads;
};

static const struct shape shapes[] = {
    {1, 1, 1, 2, 1, 0, 0, 0, 1},     {1, 1, 1, 8, 4, 0, 0, 0, 1},
    {2, 4, 63, 40, 20, 0, 0, 0, 2},  {2, 4, 129, 64, 32, 0, 0, 0, 2},
    {3, 2, 17, 80, 37, 3, 1, 0, 2},  {1, 6, 129, 128, 64, 0, 1, 0, 2},
    {2, 3, 65, 96, 16, 64, 0, 1, 3}, {1, 8, 0, 64, 32, 0, 0, 0, 2},
    {1, 5, 7, 33, 16, 1, 0, 0, 1},   {1, 8, 1, 128, 64, 0, 0, 0, 2},
    {2, 4, 33, 96, 48, 0, 0, 0, 2},  {1, 1, 5, 112, 56, 0, 0, 0, 1},
};

static void *filled(int64_t count, int64_t type, int with_nan) {
    void *x = malloc((size_t)(count * size_of(type)));
    for (int64_t i = 0; i < count; i++) write_one(x, type, i, with_nan ? (double)NAN : draw());
    return x;
}

/* The largest error of element `at`, whose row has cos and sin from `table` on. */
static double error_of(const struct pe_rotation *call, const struct pe_rotated *x, const void *before,
                       int64_t row, int64_t table, int64_t at) {
    const int64_t type = x->type, wide = type == PE_FLOAT64 ? PE_FLOAT64 : PE_FLOAT32;
    const double found = read_one(x->to, type, row + at);
    double expected = read_one(before, type, row + at);
    const int64_t i = at - call->start;
    if (i >= 0 && i < 2 * call->pairs) {
        const int64_t pair = call->interleaved ? i / 2 : i % call->pairs;
        const int second = (int)(call->interleaved ? i % 2 : i / call->pairs);
        const int64_t step = call->interleaved ? 1 : call->pairs;
        const double other = read_one(before, type, row + at + (second ? -step : step));
        double sin = read_one(x->sin, wide, table + pair);
        if (call->back) sin = -sin;
        expected = expected * read_one(x->cos, wide, table + pair) + (second ? other : -other) * sin;
    }
    const double error = fabs(found - expected) / (1.0 + fabs(expected));
    return isnan(error) ? INFINITY : error;
}

static int check(const struct shape *s, int64_t type, int interleaved, int back, int inplace) {
    const int64_t wide = type == PE_FLOAT64 ? PE_FLOAT64 : PE_FLOAT32;
    const int64_t count = s->batch * s->heads * s->tokens * s->dim;
    const int64_t table_heads = s->per_head ? s->heads : 1;
    const int64_t table_count = table_heads * s->tokens * s->pairs;
    struct pe_rotation call = {2, s->pairs, s->start, interleaved, back, s->threads, {{0}}};
    void *cos = filled(table_count, wide, 0), *sin = filled(table_count, wide, 0);
    void *before[2];
    for (int i = 0; i < 2; i++) {
        struct pe_rotated *x = &call.x[i];
        before[i] = filled(count, type, 0);
        x->to = filled(count, type, !inplace);
        if (inplace && count) memcpy(x->to, before[i], (size_t)(count * size_of(type)));
        x->from = inplace ? x->to : before[i];
        x->cos = cos, x->sin = sin, x->type = type;
        const int64_t size[4] = {s->batch, s->heads, s->tokens, s->dim};
        const int64_t stride[3] = {s->heads * s->tokens * s->dim,
                                   s->by_token ? s->dim : s->tokens * s->dim,
                                   s->by_token ? s->heads * s->dim : s->dim};
        const int64_t steps[3] = {0, s->per_head ? s->tokens * s->pairs : 0, s->pairs};
        memcpy(x->size, size, sizeof size);
        memcpy(x->from_stride, stride, sizeof stride);
        memcpy(x->to_stride, stride, sizeof stride);
        memcpy(x->table_stride, steps, sizeof steps);
    }
    pe_rotate(&call);
    double worst = 0.0;
    for (int i = 0; i < 2; i++) {
        const struct pe_rotated *x = &call.x[i];
        for (int64_t row = 0; row < s->batch * s->heads * s->tokens; row++) {
            const int64_t b = row / s->tokens / s->heads, h = row / s->tokens % s->heads;
            const int64_t t = row % s->tokens;
            const int64_t *by = x->from_stride, *steps = x->table_stride;
            const int64_t first = b * by[0] + h * by[1] + t * by[2];
            for (int64_t at = 0; at < s->dim; at++)
                worst = fmax(worst, error_of(&call, x, before[i], first,
                                             h * steps[1] + t * steps[2], at));
        }
        free(x->to);
        free(before[i]);
    }
    free(cos);
    free(sin);
    const double bounds[] = {
        [PE_FLOAT32] = 1e-6, [PE_BFLOAT16] = 8e-3, [PE_FLOAT64] = 1e-14, [PE_FLOAT16] = 1e-3};
    const double bound = bounds[type];
    if (worst <= bound) return 0;
    printf("rotate: shape (%d, %d, %d, %d), type %d, interleaved %d, back %d, in place %d: error %g\n",
           (int)s->batch, (int)s->heads, (int)s->tokens, (int)s->dim, (int)type, interleaved, back,
           inplace, worst);
    return 1;
}

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int64_t type = PE_FLOAT32; type <= PE_FLOAT16; type++)
            for (int flags = 0; flags < 8; flags++)
                failed |= check(&shapes[i], type, flags & 1, flags >> 1 & 1, flags >> 2);
    return failed;
}
