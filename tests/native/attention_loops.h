/* Attention by loops in double: one query of one head at a time, forward and backward. */
#include "numbers.h"

/* Which numbers of q and k a pair at this distance reads: of the near zone or of the far one. */
static int in_far(const struct pe_attention *p, int64_t distance) {
    return p->q_far && -distance >= p->zone;
}

static int64_t clamp(int64_t x, int64_t rows) { return x < 0 ? 0 : x >= rows ? rows - 1 : x; }

static int sees(const struct pe_attention *p, int64_t b, int64_t i, int64_t j) {
    int64_t q = p->q_tokens.order[b * p->queries + i], k = p->k_tokens.order[b * p->keys + j];
    int64_t step = k > q ? k - q : q - k;
    int in_prefix = p->prefix && k < p->prefix, in_sinks = p->sinks && k < p->sinks;
    if (p->causal && k > q && !in_prefix) return 0;
    if (p->window >= 0 && step >= p->window && !in_sinks) return 0;
    /* Rounded down, of orders below zero too. */
    if (p->chunk && floor((double)q / (double)p->chunk) != floor((double)k / (double)p->chunk)) return 0;
    if (!p->valid[b * p->valid_step + j]) return 0;
    return p->q_tokens.document[b * p->queries + i] == p->k_tokens.document[b * p->keys + j];
}

/* What counts add to the scores of a query: by their contents `x`, scaled, and the steps. */
static void add_counts(const double *x, int64_t keys, const double *steps, int64_t count,
                       double *score) {
    double passed = 0;
    for (int64_t j = keys - 1; j >= 0; j--) {
        if (x[j] != -INFINITY) passed += 1 / (1 + exp(-x[j]));
        double at = fmin(passed, (double)(count - 1));
        int64_t below = (int64_t)at, above = (int64_t)ceil(at);
        score[j] += steps[below] + (at - (double)below) * (steps[above] - steps[below]);
    }
}

/* Adds to `grad`, gradients of the scores of a query, what its gates have, and gives those of steps. */
static void count_gradients(const double *x, int64_t keys, const double *steps, int64_t count,
                            double *grad, double *steps_grad) {
    double *pull = malloc((size_t)keys * sizeof(double)), passed = 0, sum = 0;
    for (int64_t n = 0; n < count; n++) steps_grad[n] = 0;
    for (int64_t j = keys - 1; j >= 0; j--) {
        if (x[j] != -INFINITY) passed += 1 / (1 + exp(-x[j]));
        double at = fmin(passed, (double)(count - 1)), share = at - floor(at);
        int64_t below = (int64_t)at, above = (int64_t)ceil(at);
        steps_grad[below] += (1 - share) * grad[j];
        steps_grad[above] += share * grad[j];
        pull[j] = grad[j] * (steps[above] - steps[below]);
    }
    for (int64_t j = 0; j < keys; j++) {
        double gate = 1 / (1 + exp(-x[j]));
        sum += pull[j];
        if (x[j] != -INFINITY) grad[j] += sum * gate * (1 - gate);
    }
    free(pull);
}

/* What multiplies a weight: Philox 4x32 of 7 rounds. Of 64 keys the key 16 r + c has word r of
   counter c. */
static double kept_share(const struct pe_attention *p, int64_t b, int64_t h, int64_t i, int64_t j) {
    if (p->dropout == 0) return 1;
    uint32_t x[4] = {(uint32_t)(j / 64 * 16 + j % 16), (uint32_t)i, (uint32_t)(b * p->heads + h), 0};
    uint32_t key[2] = {(uint32_t)*p->seed, (uint32_t)((uint64_t)*p->seed >> 32)};
    for (int round = 0; round < 7; round++) {
        uint64_t first = (uint64_t)x[0] * 0xd2511f53u, second = (uint64_t)x[2] * 0xcd9e8d57u;
        uint32_t next[4] = {(uint32_t)(second >> 32) ^ x[1] ^ key[0], (uint32_t)second,
                            (uint32_t)(first >> 32) ^ x[3] ^ key[1], (uint32_t)first};
        memcpy(x, next, sizeof x);
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
    return x[j / 16 % 4] < (uint32_t)(p->dropout * 4294967296.0) ? 0 : 1 / (1 - p->dropout);
}

static double vectors(const struct pe_table *x, int64_t type, int64_t h, int64_t distance,
                      int64_t width, int64_t c) {
    if (!x->weight) return 0;
    int64_t row = clamp(distance + x->zero, x->rows) + (x->heads == 1 ? 0 : h) * x->rows;
    return read_one(x->weight, type, row * width + c);
}

static double network(const struct pe_network *n, int64_t b, int64_t i, int64_t h, int64_t distance) {
    int64_t row = clamp(distance < 0 ? -distance : distance, n->by_distance.rows);
    double x = ((const double *)n->by_distance.weight)[row] * n->by_query[b * n->by_query_step + i];
    double out = n->output_bias[h];
    for (int64_t u = 0; u < n->output_weight_units; u++) {
        double hidden = n->hidden_weight[u] * x + n->hidden_bias[u];
        if (hidden > 0) out += n->output_weight[h * n->output_weight_units + u] * hidden;
    }
    return out;
}

static double grid(const struct pe_grid *g, int64_t type, int64_t b, int64_t i, int64_t j, int64_t h) {
    int64_t step = g->k_index[b * g->k_index_step + j] - g->q_index[b * g->q_index_step + i];
    return vectors(&g->table, type, h, step, 1, 0);
}

/* Output and gradients of one query of one head, by loops; gradients are added to. */
static void by_loops(const struct pe_attention *p, int64_t real, int64_t b, int64_t h, int64_t i,
                     double *out, double *q_grads[2], double *k_grads[2], double *v_grad,
                     double *steps_grad, double *sink_grad) {
    const void *qs[] = {p->q, p->q_far}, *ks[] = {p->k, p->k_far};
    int64_t g = h / (p->heads / p->key_heads), d = p->width, e = p->value_width, t = p->type;
    int64_t query = (b * p->heads + h) * p->queries + i, key = (b * p->key_heads + g) * p->keys;
    int64_t count = p->by_count_steps;
    double *score = malloc((size_t)(p->keys * 3 + count) * sizeof(double)), *pull = score + p->keys;
    double *scaled = pull + p->keys, *steps = scaled + p->keys;
    for (int64_t n = 0; n < count; n++) steps[n] = read_one(p->by_count, real, query * count + n);
    double sink = p->sink ? p->sink[h] : -INFINITY, top = sink, mass = 0, mean = 0;
    for (int64_t j = 0; j < p->keys; j++) {
        int64_t x = p->k_tokens.order[b * p->keys + j] - p->q_tokens.order[b * p->queries + i];
        double content = 0;
        int zone = in_far(p, x);
        for (int64_t c = 0; c < d; c++) {
            double q = read_one(qs[zone], t, query * d + c);
            double k = read_one(ks[zone], t, (key + j) * d + c);
            content += q * (k + vectors(&p->on_query, real, h, x, d, c)) +
                       k * vectors(&p->on_key, real, h, x, d, c);
        }
        score[j] = p->scale * content + (x <= 0 ? p->past[h] : -p->future[h]) * (double)x;
        score[j] += read_one(p->table.weight, real, h * p->table.rows + clamp(x + p->table.zero, p->table.rows));
        score[j] += network(&p->network, b, i, h, x);
        score[j] += grid(&p->grid, real, b, i, j, h);
        score[j] += p->q_offset[h * p->queries + i] + p->k_offset[h * p->keys + j];
        scaled[j] = p->scale * content;
        if (!sees(p, b, i, j)) score[j] = scaled[j] = -INFINITY;
    }
    if (count) add_counts(scaled, p->keys, steps, count, score);
    for (int64_t j = 0; j < p->keys; j++)
        if (score[j] > top) top = score[j];
    for (int64_t j = 0; j < p->keys; j++) mass += score[j] = top == -INFINITY ? 0 : exp(score[j] - top);
    if (p->sink) mass += sink = exp(sink - top);
    for (int64_t c = 0; c < e; c++) out[c] = 0;
    for (int64_t j = 0; j < p->keys; j++) {
        int64_t x = p->k_tokens.order[b * p->keys + j] - p->q_tokens.order[b * p->queries + i];
        double weight = score[j] = mass > 0 ? score[j] / mass : 0;
        double kept = kept_share(p, b, h, i, j);
        weight *= kept;
        pull[j] = 0;
        for (int64_t c = 0; c < e; c++) {
            double value = read_one(p->v, t, (key + j) * e + c) + vectors(&p->on_value, real, h, x, e, c);
            double grad = read_one(p->grad_out, t, query * e + c);
            out[c] += weight * value;
            pull[j] += kept * grad * value;
            v_grad[(key + j) * e + c] += weight * grad;
        }
        mean += score[j] * pull[j];
    }
    for (int64_t j = 0; j < p->keys; j++) pull[j] = score[j] * (pull[j] - mean);
    if (p->sink) sink_grad[h] -= sink / mass * mean;
    if (count) count_gradients(scaled, p->keys, steps, count, pull, steps_grad + query * count);
    for (int64_t j = 0; j < p->keys; j++) {
        int64_t x = p->k_tokens.order[b * p->keys + j] - p->q_tokens.order[b * p->queries + i];
        double grad = p->scale * pull[j];
        int zone = in_far(p, x);
        double *q_grad = q_grads[zone], *k_grad = k_grads[zone];
        for (int64_t c = 0; c < d; c++) {
            double q = read_one(qs[zone], t, query * d + c);
            double k = read_one(ks[zone], t, (key + j) * d + c);
            q_grad[query * d + c] += grad * (k + vectors(&p->on_query, real, h, x, d, c));
            k_grad[(key + j) * d + c] += grad * (q + vectors(&p->on_key, real, h, x, d, c));
        }
    }
    free(score);
}
