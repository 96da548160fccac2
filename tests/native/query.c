/* Runs the kernel of one query on odd shapes, for sanitizers and valgrind, and compares it with
   loops in double. Exits with 1 where a result is wrong. */
#include <math.h>
#include <stdio.h>

#include "numbers.h"

struct shape {
    int64_t batch, heads, key_heads, keys, width, value_width, workers;
    /* Rows and heads of the mask, 0 where there is none, and of how many keys it hides one. */
    int64_t mask_rows, mask_heads, hides;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 0, 0, 0},      {2, 4, 4, 64, 64, 64, 2, 0, 0, 0},
    {1, 6, 2, 65, 64, 128, 1, 1, 6, 3},  {2, 4, 2, 200, 80, 24, 3, 2, 4, 2},
    {2, 4, 1, 130, 17, 5, 8, 1, 1, 5},   {1, 2, 2, 63, 128, 40, 1, 1, 2, 1},
    {3, 2, 1, 191, 8, 16, 2, 3, 1, 70},  {1, 14, 2, 150, 70, 40, 1, 1, 14, 3},
    {2, 16, 2, 130, 64, 64, 2, 0, 0, 0}, {1, 7, 1, 150, 80, 48, 1, 1, 7, 3},
};

static int check(const struct shape *s, int64_t type) {
    int64_t real = type == PE_FLOAT64 ? PE_FLOAT64 : PE_FLOAT32, tokens = s->key_heads * s->keys;
    int64_t sizes[] = {s->batch * s->heads * s->width, s->batch * tokens * s->width,
                       s->batch * tokens * s->value_width,
                       s->mask_rows * s->mask_heads * s->keys,
                       s->batch * s->heads * s->value_width};
    void *x[5];
    for (int n = 0; n < 5; n++) {
        int64_t own = n == 3 ? real : type;
        x[n] = malloc((size_t)sizes[n] * (size_t)size_of(own));
        for (int64_t i = 0; i < sizes[n]; i++) write_one(x[n], own, i, n == 4 ? NAN : 2 * draw());
    }
    /* Whole runs are hidden, so that some tiles are not met at all; of every key, all. */
    for (int64_t i = 0; i < sizes[3]; i++)
        if (i / 70 % s->hides == 0) write_one(x[3], real, i, -INFINITY);
    struct pe_query p = {
        .type = type, .batch = s->batch, .heads = s->heads, .key_heads = s->key_heads,
        .keys = s->keys, .width = s->width, .value_width = s->value_width, .workers = s->workers,
        .q = x[0], .q_stride = {s->heads * s->width, s->width},
        .k = x[1], .k_stride = {tokens * s->width, s->keys * s->width, s->width},
        .v = x[2], .v_stride = {tokens * s->value_width, s->keys * s->value_width, s->value_width},
        .mask = s->mask_rows ? x[3] : NULL,
        .mask_stride = {s->mask_rows > 1 ? s->mask_heads * s->keys : 0,
                        s->mask_heads > 1 ? s->keys : 0},
        .scale = 0.3, .out = x[4],
    };
    double sink[64];
    for (int64_t h = 0; h < s->heads; h++) sink[h] = 2 * draw();
    if ((s - shapes) % 2) p.sink = sink;
    int of_double = type == PE_FLOAT64, failed = 0;
    int64_t bytes = s->workers * (of_double ? pe_query_double_scratch : pe_query_float_scratch)(&p);
    void *memory = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
    /* Bytes of ones are NaNs. */
    memset(memory, 0xff, (size_t)bytes);
    (of_double ? pe_query_double : pe_query_float)(&p, memory);

    const double bounds[] = {
        [PE_FLOAT32] = 1e-5, [PE_BFLOAT16] = 0.02, [PE_FLOAT64] = 1e-12, [PE_FLOAT16] = 2e-3};
    double bound = bounds[type];
    double *weights = malloc((size_t)s->keys * sizeof *weights);
    for (int64_t row = 0; row < s->batch * s->heads; row++) {
        int64_t b = row / s->heads, h = row % s->heads;
        int64_t keys = (b * s->key_heads + h / (s->heads / s->key_heads)) * s->keys;
        double peak = p.sink ? sink[h] : -INFINITY, mass = 0;
        for (int64_t j = 0; j < s->keys; j++) {
            double score = 0;
            for (int64_t c = 0; c < s->width; c++)
                score += read_one(x[0], type, row * s->width + c) *
                         read_one(x[1], type, (keys + j) * s->width + c);
            int64_t at = b * p.mask_stride[0] + h * p.mask_stride[1] + j;
            weights[j] = 0.3 * score + (p.mask ? read_one(x[3], real, at) : 0);
            peak = fmax(peak, weights[j]);
        }
        for (int64_t j = 0; j < s->keys; j++)
            mass += weights[j] = peak == -INFINITY ? 0 : exp(weights[j] - peak);
        if (p.sink) mass += exp(sink[h] - peak);
        for (int64_t c = 0; c < s->value_width; c++) {
            double sum = 0;
            for (int64_t j = 0; j < s->keys; j++)
                sum += weights[j] * read_one(x[2], type, (keys + j) * s->value_width + c);
            double wanted = mass ? sum / mass : 0;
            double found = read_one(x[4], type, row * s->value_width + c);
            if (fabs(found - wanted) <= bound * (1 + fabs(wanted))) continue;
            printf("shape %d, type %d: row %d, column %d is %g, not %g\n", (int)(s - shapes),
                   (int)type, (int)row, (int)c, found, wanted);
            failed = 1;
        }
    }
    free(weights);
    free(memory);
    for (int n = 0; n < 5; n++) free(x[n]);
    return failed;
}

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int64_t type = PE_FLOAT32; type <= PE_FLOAT16; type++) failed |= check(shapes + i, type);
    return failed;
}
