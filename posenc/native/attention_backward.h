/* The backward pass: for each tile of keys of one head, all queries that see any of them. */

/* What a query takes into every meeting: see `delta` of the workspace. */
static void prepare_query(const struct pe_attention *p, struct backward *w, int64_t head,
                          int64_t query, const REAL *grad, const REAL *out) {
    int64_t values = pitch_of(p->value_width), some = 0;
    REAL mass = ((const REAL *)p->mass)[head * p->queries + query];
    REAL of_mass = p->grad_mass ? ((const REAL *)p->grad_mass)[head * p->queries + query] : 0;
    for (int64_t c = 0; c < values && !some; c++) some = grad[c] != 0;
    some = some || of_mass != 0;
    w->factor[query] = some && mass != 0 ? 1 / mass : 0;
    w->delta[query] = some ? dot(out, grad, values) - of_mass * mass : 0;
}

/* What a row gives the gradient of its head's sink, which has a weight and no value. */
static double of_sink(const struct pe_attention *p, const struct backward *w, int64_t head,
                      int64_t query) {
    double weight = exp(p->sink[head % p->heads] -
                        (double)((const REAL *)p->peak)[head * p->queries + query] / LOG16E);
    return -weight * (double)(w->factor[query] * w->delta[query]);
}

/* What all queries take into their meetings, and what the far ends of tables give them. */
static void prepare_head(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                         const struct tile *q, int64_t q_count) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width);
    int64_t head = b * p->heads + h;
    w->finite_tables = finite_table(&p->on_query, h, p->width) &&
                       finite_table(&p->on_key, h, p->width);
    w->of_query = transpose_table(p, &p->on_query, h, p->width, w->query_table);
    w->of_key = transpose_table(p, &p->on_key, h, p->width, w->key_table);
    w->of_value = transpose_table(p, &p->on_value, h, p->value_width, w->value_table);
    network_head(p, &w->network, h);
    grid_head(p, &w->grid, h);
    if (p->on_query.weight) memset(w->query_sum, 0, (size_t)p->queries * 2 * sizeof(REAL));
    if (p->on_value.weight) memset(w->value_sum, 0, (size_t)p->queries * 2 * sizeof(REAL));
    for (; q_count > 0; q++, q_count--) {
        pack_tensor(p, p->grad_out, p->grad_stride, b, h, q, p->value_width, w->grad_out);
        pack_rows(p->exact_out, REAL_TYPE,
                  b * p->out_stride[0] + h * p->out_stride[1] + q->start * p->out_stride[2],
                  p->out_stride[2], q->count, p->value_width, w->v, values);
        for (int64_t i = 0; i < q->count; i++)
            prepare_query(p, w, head, q->start + i, w->grad_out + i * values, w->v + i * values);
        /* Each row gives it once, to whichever chunk and zone. */
        for (int64_t i = 0; p->sink_grad && !w->chunk && !p->in_far && i < q->count; i++)
            p->sink_grad[w->slot * p->heads + h] += of_sink(p, w, head, q->start + i);
        pack_queries(p, w, b, h, q);
        w->finite[q->start] = all_finite(w->q, q->count * width) &&
                              all_finite(w->grad_out, q->count * values);
        if (w->far_queries)
            far_products(&p->on_query, h, p->width, w->q, q->count, w->query_far + q->start,
                         p->queries, w->columns);
        if (w->far_values)
            far_products(&p->on_value, h, p->value_width, w->grad_out, q->count,
                         w->value_far + q->start, p->queries, w->columns);
    }
}

/* What the queries that met the far ends of tables in sum give to them, and get from them. */
static void finish_head(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                        REAL *q_grad, const struct tile *q, int64_t q_count) {
    network_finish(p, &w->network, w->slot, h);
    if (!w->far_queries && !w->far_values) return;
    for (; q_count > 0; q++, q_count--) {
        pack_queries(p, w, b, h, q);
        if (w->far_queries)
            far_gradients(&p->on_query, w->slot, h, p->width, w->q, q->count,
                          w->query_sum + q->start, p->queries, (REAL)p->scale,
                          q_grad + q->start * pitch_of(p->width));
        if (w->far_values)
            far_gradients(&p->on_value, w->slot, h, p->value_width, w->grad_out, q->count,
                          w->value_sum + q->start, p->queries, 1, 0);
    }
}

/* Keys, and with them queries that have no gradient: scores of a key that is not finite are NaN, and
   so is what they make of zeros. */
static void pack_keys(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                      const struct tile *k) {
    int64_t g = h / group_of(p), width = pitch_of(p->width);
    pack_tensor(p, p->k, p->k_stride, b, g, k, p->width, w->k);
    if (!paired(p)) transpose_tile(w->k, width, k->count, p->width, w->k_columns);
    word_tensor(p, p->k, p->k_stride, b, g, k, p->width, 1, w->k_words);
    if (w->of_key != NUMBERS) word_tensor(p, p->k, p->k_stride, b, g, k, p->width, 0, w->k_rows);
    if (w->far_keys) {
        far_products(&p->on_key, h, p->width, w->k, k->count, w->key_far, TILE, w->columns);
        memset(w->key_sum, 0, 2 * TILE * sizeof(REAL));
    }
    if (!all_finite(w->k, k->count * width)) drop_others(w->k, k->count * width);
    if (paired(p)) pair_rows(w->k, width, k->count, width, w->k_pairs, width);
}

static void pack_values(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                        const struct tile *k) {
    int64_t g = h / group_of(p), values = pitch_of(p->value_width);
    pack_tensor(p, p->v, p->v_stride, b, g, k, p->value_width, w->v);
    if (!paired(p)) transpose_tile(w->v, values, k->count, p->value_width, w->v_columns);
    word_tensor(p, p->v, p->v_stride, b, g, k, p->value_width, 1, w->v_words);
}

/* Of each table, whether the ends of it are met at all. */
static void find_ends(const struct pe_attention *p, struct backward *w, const struct tile *q,
                      int64_t q_count, const struct tile *k, int64_t k_count) {
    w->far_queries = reaches_ends(p, &p->on_query, q, q_count, k, k_count);
    w->far_keys = reaches_ends(p, &p->on_key, q, q_count, k, k_count);
    w->far_values = reaches_ends(p, &p->on_value, q, q_count, k, k_count);
}

static void backward_keys(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                          const struct tile *q, int64_t q_count, const struct tile *k,
                          REAL *q_grad, REAL *k_grad, REAL *v_grad) {
    int64_t packed = 0;
    for (; q_count > 0; q++, q_count--) {
        struct meeting m;
        if (!meet(p, q, k, &m)) continue;
        if (!packed) pack_keys(p, w, b, h, k), pack_values(p, w, b, h, k);
        packed = 1;
        if (!w->finite_tables || w->finite[q->start] == 0) m.height = 1;
        /* Words suffice, but for vectors, and for rows that stand alone. */
        if (!paired(p) || has_vectors(p) || m.height == 1) pack_queries(p, w, b, h, q);
        word_queries(p, w, b, h, q);
        backward_meeting(p, w, &m, q, k, b, h, q_grad, k_grad, v_grad);
    }
    if (packed && w->far_keys)
        far_gradients(&p->on_key, w->slot, h, p->width, w->k, k->count, w->key_sum, TILE,
                      (REAL)p->scale, k_grad);
}

/* What one chunk of a task gives to the sums over all: to q, or where queries count to k and v. */
static int64_t chunk_size(const struct pe_attention *p) {
    if (p->by_count)
        return p->batch * p->key_heads * p->keys * (pitch_of(p->width) + pitch_of(p->value_width));
    return p->batch * p->heads * p->queries * pitch_of(p->width);
}

static REAL *partial_of_zone(const struct pe_attention *p, REAL *partial) {
    return p->chunks > 1 ? partial + p->in_far * p->chunks * chunk_size(p) : 0;
}

/* Every chunks-th tile of keys, of one row of the batch and one key head with its query heads;
   of one zone where there are two. */
static void backward_zone(const struct pe_attention *p, struct backward *w, int64_t b, int64_t g,
                          int64_t chunk, const struct tile *q, int64_t q_count,
                          const struct tile *k, int64_t k_count) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width), group = group_of(p);
    int64_t kept = keeps_keys(p), head_size = p->queries * width;
    w->chunk = chunk;
    find_ends(p, w, q, q_count, k, k_count);
    if (kept) memset(w->k_grad, 0, (size_t)(p->keys * width) * sizeof(REAL));
    if (kept && !p->in_far) memset(w->v_grad, 0, (size_t)(p->keys * values) * sizeof(REAL));
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        REAL *q_grad = w->q_grad;
        if (p->chunks > 1)
            q_grad = partial_of_zone(p, w->partial) + chunk * chunk_size(p) +
                     (b * p->heads + h) * head_size;
        memset(q_grad, 0, (size_t)head_size * sizeof(REAL));
        prepare_head(p, w, b, h, q, q_count);
        for (int64_t i = chunk; i < k_count; i += p->chunks) {
            int64_t row = kept ? k[i].start : 0;
            REAL *k_grad = w->k_grad + row * width, *v_grad = w->v_grad + row * values;
            if (!kept) {
                memset(k_grad, 0, (size_t)(TILE * width) * sizeof(REAL));
                memset(v_grad, 0, (size_t)(TILE * values) * sizeof(REAL));
            }
            backward_keys(p, w, b, h, q, q_count, k + i, q_grad, k_grad, v_grad);
            if (h + 1 < (g + 1) * group) continue;
            unpack_tensor(p, k_grad, (REAL)p->scale, b, g, k[i].start, k[i].count, p->width,
                          p->k_grad, p->k_grad_stride);
            if (p->in_far + 1 == zones_of(p))
                unpack_tensor(p, v_grad, 1, b, g, k[i].start, k[i].count, p->value_width, p->v_grad,
                              p->v_grad_stride);
        }
        finish_head(p, w, b, h, q_grad, q, q_count);
        if (p->chunks == 1)
            unpack_tensor(p, q_grad, (REAL)p->scale, b, h, 0, p->queries, p->width, p->q_grad,
                          p->q_grad_stride);
    }
}

static void backward_task(const struct pe_attention *p, struct backward *w, int64_t b, int64_t g,
                          int64_t chunk, const struct tile *q, int64_t q_count,
                          const struct tile *k, int64_t k_count) {
    for (int64_t zone = 0; zone < zones_of(p); zone++) {
        struct pe_attention own = call_of_zone(p, zone);
        backward_zone(&own, w, b, g, chunk, q, q_count, k, k_count);
    }
}

/* The gradient of q out of what every chunk of keys gave to it, in their order. */
static void reduce_chunks(const struct pe_attention *p, REAL *partial) {
    int64_t width = pitch_of(p->width), rows = p->batch * p->heads * p->queries;
#pragma omp parallel for num_threads((int)p->workers) schedule(static) if (p->workers > 1)
    for (int64_t r = 0; r < rows; r++) {
        REAL *sum = partial + r * width;
        for (int64_t chunk = 1; chunk < p->chunks; chunk++)
            add_row(sum, 1, partial + chunk * chunk_size(p) + r * width, p->width);
        int64_t head = r / p->queries;
        unpack_tensor(p, sum, (REAL)p->scale, head / p->heads, head % p->heads, r % p->queries, 1,
                      p->width, p->q_grad, p->q_grad_stride);
    }
}
