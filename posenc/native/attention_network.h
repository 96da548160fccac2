/* A network of one hidden layer, of x = the value of the distance times the value of the query.

   For each head it is a piecewise linear function of x. Its kinks, where a unit starts or stops, are
   the same for all heads and sorted once; a tile of scores meets those alone that lie between its
   least x and its greatest, mostly none or one. */

struct network {
    /* Units by rising kink, `count` of them, and from there to `used` those that are always on. */
    int64_t *unit, count, used;
    /* Of each kink the least x beyond it, where it is, and what a head's slope grows by there. */
    REAL *beyond, *kink, *growth;
    /* Of each segment between kinks: a head's function, and sums of gradients of scores, of these
       times x too. */
    double *intercept, *slope, *sum, *moment;
    /* Of a meeting: values of its distances, laid out as its bias, and of its queries; its first
       segment, and how many kinks follow. */
    REAL *by_distance, *by_query;
    int64_t segment, kinks;
    /* The bias of a row with what the network adds; gradients of the values of distances, and a
       vector of sums for each kink. */
    REAL *line, *grads, *diagonals, *sums;
};

static void network_scratch(const struct pe_attention *p, struct scratch *memory,
                            struct network *n) {
    int64_t units = p->network.output_weight_units, segments = p->network.by_distance.weight ? units + 1 : 0;
    int64_t number = (int64_t)sizeof(double), there = segments ? 1 : 0;
    n->unit = take_bytes(memory, units * (int64_t)sizeof(int64_t));
    n->beyond = take(memory, units);
    n->kink = take(memory, units);
    n->growth = take(memory, units);
    n->intercept = take_bytes(memory, segments * number);
    n->slope = take_bytes(memory, segments * number);
    n->by_distance = take(memory, there * REACH);
    n->by_query = take(memory, there * TILE);
    n->line = take(memory, there * TILE);
    if (!p->backward || !there) return;
    n->sum = take_bytes(memory, segments * number);
    n->moment = take_bytes(memory, segments * number);
    n->grads = take_tile(memory);
    n->diagonals = take(memory, REACH);
    n->sums = take(memory, 2 * segments * WIDE);
}

/* The least number of the arithmetic that is beyond a kink: a unit that starts there is still off
   at the kink itself, one that stops there is off already. */
static REAL beyond_of(double kink, int starts) {
    REAL x = (REAL)kink;
    if (starts ? (double)x <= kink : (double)x < kink)
        x = IS_FLOAT ? (REAL)nextafterf((float)x, INFINITY) : (REAL)nextafter((double)x, INFINITY);
    return x;
}

/* Once for each worker. */
static void network_sort(const struct pe_attention *p, struct network *n) {
    const struct pe_network *x = &p->network;
    if (!x->by_distance.weight) return;
    if (p->backward) clear(n->grads);
    n->count = n->used = 0;
    for (int64_t u = 0; u < x->output_weight_units; u++) {
        double weight = x->hidden_weight[u], bias = x->hidden_bias[u];
        double kink = weight == 0 ? INFINITY : -bias / weight;
        if (isinf(kink)) continue;
        REAL beyond = beyond_of(kink, weight > 0);
        if (isnan(kink)) continue;
        int64_t at = n->count++;
        for (; at > 0 && n->beyond[at - 1] > beyond; at--) {
            n->unit[at] = n->unit[at - 1];
            n->beyond[at] = n->beyond[at - 1];
            n->kink[at] = n->kink[at - 1];
        }
        n->unit[at] = u;
        n->beyond[at] = beyond;
        n->kink[at] = (REAL)kink;
    }
    n->used = n->count;
    for (int64_t u = 0; u < x->output_weight_units; u++) {
        double weight = x->hidden_weight[u], bias = x->hidden_bias[u];
        double kink = weight == 0 ? INFINITY : -bias / weight;
        int on = weight == 0 ? bias > 0 : weight > 0 ? kink < 0 : kink > 0;
        /* What is no number stays on, so that it shows. */
        if (isnan(weight) || isnan(bias) || (isinf(kink) && on)) n->unit[n->used++] = u;
    }
}

/* The function of a head: with x each unit on the way starts or stops. */
static void network_head(const struct pe_attention *p, struct network *n, int64_t h) {
    const struct pe_network *x = &p->network;
    if (!x->by_distance.weight) return;
    const double *out = x->output_weight + h * x->output_weight_units;
    double intercept = x->output_bias[h], slope = 0;
    for (int64_t k = 0; k < n->used; k++) {
        int64_t u = n->unit[k];
        if (k < n->count && x->hidden_weight[u] > 0) continue;
        intercept += out[u] * x->hidden_bias[u];
        slope += out[u] * x->hidden_weight[u];
    }
    n->intercept[0] = intercept;
    n->slope[0] = slope;
    for (int64_t k = 0; k < n->count; k++) {
        int64_t u = n->unit[k];
        double sign = x->hidden_weight[u] > 0 ? 1 : -1, grows = sign * out[u] * x->hidden_weight[u];
        n->intercept[k + 1] = intercept += sign * out[u] * x->hidden_bias[u];
        n->slope[k + 1] = slope += grows;
        n->growth[k] = (REAL)grows;
    }
    if (!p->backward) return;
    memset(n->sum, 0, (size_t)(x->output_weight_units + 1) * sizeof(double));
    memset(n->moment, 0, (size_t)(x->output_weight_units + 1) * sizeof(double));
}

INLINE void widen(REAL x, REAL *low, REAL *high) {
    if (x < *low) *low = x;
    if (x > *high) *high = x;
}

INLINE int64_t value_of_distance(const struct pe_network *x, int64_t distance) {
    return least(distance < 0 ? -distance : distance, x->by_distance.rows - 1);
}

/* The values of a meeting, zero where nobody sees, and which kinks lie among them. */
static void network_meet(const struct pe_attention *p, struct network *n, const struct meeting *m,
                         const struct tile *q, int64_t b) {
    const struct pe_network *x = &p->network;
    if (!x->by_distance.weight) return;
    int64_t lowest = m->distance - (m->rows - 1);
    int64_t first = m->band.first + m->rows - 1, end = m->band.last + m->rows;
    const double *by_distance = x->by_distance.weight;
    const double *by_query = x->by_query + b * x->by_query_step + q->start;
    REAL near = INFINITY, far = -INFINITY, low = INFINITY, high = -INFINITY;
    memset(n->by_distance, 0, REACH * sizeof(REAL));
    for (int64_t t = most(first, 0); t < end; t++) {
        n->by_distance[t] = (REAL)by_distance[value_of_distance(x, lowest + t)];
        widen(n->by_distance[t], &near, &far);
    }
    for (int64_t i = 0; i < m->rows; i++) {
        n->by_query[i] = (REAL)by_query[i];
        widen(n->by_query[i], &low, &high);
    }
    REAL start = INFINITY, stop = -INFINITY;
    widen(near * low, &start, &stop), widen(near * high, &start, &stop);
    widen(far * low, &start, &stop), widen(far * high, &start, &stop);
    n->segment = 0;
    while (n->segment < n->count && n->beyond[n->segment] <= start) n->segment++;
    n->kinks = 0;
    while (n->segment + n->kinks < n->count && n->beyond[n->segment + n->kinks] <= stop) n->kinks++;
}

/* bias + what the network adds to row i, in units of log 16. */
static const REAL *network_row(const struct pe_attention *p, struct network *n,
                               const struct meeting *m, const REAL *bias, int64_t i) {
    if (!p->network.by_distance.weight) return bias;
    enum { VECTORS = TILE / (sizeof(vf) / sizeof(REAL)) };
    const REAL *by_distance = n->by_distance + m->rows - 1 - i;
    REAL slope = (REAL)n->slope[n->segment], intercept = (REAL)n->intercept[n->segment];
    vr x[VECTORS], y[VECTORS];
#pragma GCC unroll 16
    for (int64_t c = 0; c < VECTORS; c++) {
        x[c] = get(by_distance + c * WIDE) * n->by_query[i];
        y[c] = x[c] * slope + intercept;
    }
    for (int64_t k = n->segment; k < n->segment + n->kinks; k++)
#pragma GCC unroll 16
        for (int64_t c = 0; c < VECTORS; c++)
            y[c] += greater(x[c] - n->kink[k], (vr){0}) * n->growth[k];
#pragma GCC unroll 16
    for (int64_t c = 0; c < VECTORS; c++)
        put(n->line + c * WIDE, get(bias + c * WIDE) + y[c] * (REAL)LOG16E);
    return n->line;
}

/* Gradients of x out of those of the scores, times the value of the query; sums for each segment. */
static double network_row_gradients(struct network *n, const struct meeting *m, const REAL *grads,
                                    int64_t i, vr *sum, vr *moment) {
    enum { VECTORS = TILE / (sizeof(vf) / sizeof(REAL)) };
    const REAL *by_distance = n->by_distance + m->rows - 1 - i;
    REAL by_query = n->by_query[i];
    vr x[VECTORS], slope[VECTORS], of_query = {0};
#pragma GCC unroll 16
    for (int64_t c = 0; c < VECTORS; c++) {
        x[c] = get(by_distance + c * WIDE) * by_query;
        slope[c] = all((REAL)n->slope[n->segment]);
        *sum += get(grads + c * WIDE);
        *moment += get(grads + c * WIDE) * x[c];
    }
    for (int64_t k = 0; k < n->kinks; k++) {
        REAL *sums = n->sums + 2 * k * WIDE;
        vr beyond = all(n->beyond[n->segment + k]), growth = all(n->growth[n->segment + k]);
        vr own = get(sums), own_moment = get(sums + WIDE);
#pragma GCC unroll 16
        for (int64_t c = 0; c < VECTORS; c++) {
            vw passed = (vw)(x[c] >= beyond);
            vr grad = (vr)((vw)get(grads + c * WIDE) & passed);
            own += grad;
            own_moment += grad * x[c];
            slope[c] += (vr)((vw)growth & passed);
        }
        put(sums, own), put(sums + WIDE, own_moment);
    }
#pragma GCC unroll 16
    for (int64_t c = 0; c < VECTORS; c++) {
        vr grad = get(grads + c * WIDE) * slope[c];
        of_query += grad * get(by_distance + c * WIDE);
        put(n->grads + i * PITCH + c * WIDE, grad * by_query);
    }
    return sum_of(of_query);
}

/* What the gradients of a meeting's scores give to the values of distances and of queries, and to
   the segments of the head. */
static void network_gradients(const struct pe_attention *p, struct network *n, int64_t slot,
                              const struct meeting *m, const struct tile *q, int64_t b,
                              const REAL *grads) {
    const struct pe_network *x = &p->network;
    if (!x->by_distance.grad) return;
    double *by_query = p->network_grads.by_query + (slot * p->batch + b) * p->queries + q->start;
    vr sum = {0}, moment = {0};
    memset(n->sums, 0, (size_t)(2 * n->kinks * WIDE) * sizeof(REAL));
    for (int64_t i = 0; i < m->rows; i++)
        by_query[i] += network_row_gradients(n, m, grads + i * PITCH, i, &sum, &moment);
    /* Sums of what is beyond a kink: those of a segment are their differences. */
    double before = sum_of(sum), before_moment = sum_of(moment);
    for (int64_t k = 0; k < n->kinks; k++) {
        double beyond = sum_of(get(n->sums + 2 * k * WIDE));
        double beyond_moment = sum_of(get(n->sums + (2 * k + 1) * WIDE));
        n->sum[n->segment + k] += before - beyond;
        n->moment[n->segment + k] += before_moment - beyond_moment;
        before = beyond, before_moment = beyond_moment;
    }
    n->sum[n->segment + n->kinks] += before;
    n->moment[n->segment + n->kinks] += before_moment;

    sum_diagonals(m, n->grads, n->diagonals);
    int64_t lowest = m->distance - (m->rows - 1);
    int64_t first = m->band.first + m->rows - 1, end = m->band.last + m->rows;
    double *by_distance = (double *)x->by_distance.grad + slot * x->by_distance.rows;
    for (int64_t t = first; t < end; t++)
        by_distance[value_of_distance(x, lowest + t)] += n->diagonals[t - first];
}

/* What the segments of a head give to the weights and biases of the units that are on in them.
   Gradients of the scores of a row sum to zero where the output alone learns and no sink takes a
   share, and so do those of all segments, which is taken for granted: their rounding would add up
   over all rows. */
static void network_finish(const struct pe_attention *p, struct network *n, int64_t slot,
                           int64_t h) {
    const struct pe_network *x = &p->network;
    if (!x->by_distance.grad) return;
    const struct pe_network_grads *to = &p->network_grads;
    const double *out = x->output_weight + h * x->output_weight_units;
    double *hidden_weight = to->hidden_weight + slot * x->output_weight_units;
    double *hidden_bias = to->hidden_bias + slot * x->output_weight_units;
    double *output_weight = to->output_weight + (slot * p->heads + h) * x->output_weight_units;
    double moment = 0, beyond = 0, beyond_moment = 0, total = 0;
    for (int64_t k = 0; k <= n->count; k++) moment += n->moment[k];
    for (int64_t k = 0; (p->grad_mass || p->sink) && k <= n->count; k++) total += n->sum[k];
    to->output_bias[slot * p->heads + h] += total;
    for (int64_t k = n->used - 1; k >= 0; k--) {
        int64_t u = n->unit[k];
        double own = total, own_moment = moment;
        if (k < n->count) {
            beyond += n->sum[k + 1], beyond_moment += n->moment[k + 1];
            int starts = x->hidden_weight[u] > 0;
            own = starts ? beyond : total - beyond;
            own_moment = starts ? beyond_moment : moment - beyond_moment;
        }
        output_weight[u] += x->hidden_weight[u] * own_moment + x->hidden_bias[u] * own;
        hidden_weight[u] += out[u] * own_moment;
        hidden_bias[u] += out[u] * own;
    }
}
