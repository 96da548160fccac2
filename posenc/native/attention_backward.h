/* The backward pass: for each tile of keys of one head, all queries that see any of them. Weights
   are computed again from the peaks and masses of the forward pass. */

struct backward {
    REAL *q, *k, *v, *grad_out, *k_columns, *v_columns, *scores, *grad_weights, *weights, *grads;
    REAL *mirror, *bias, *beside, *columns, *slice, *slice_grad, *key_sums, *diagonals;
    REAL *grad_q, *grad_k, *grad_v, *delta;
    REAL *query_table, *key_table, *value_table;
    /* Of each query and far end of a table: what the table adds, and sums of what met it. */
    REAL *query_far, *value_far, *query_sum, *value_sum, *key_far, *key_sum;
    REAL *partial;
    /* Words of bfloat16, where products go by pairs. */
    REAL *q_words, *k_words, *v_words, *grad_words;
    int64_t slot;
};

static int64_t group_of(const struct pe_attention *p) { return p->heads / p->key_heads; }

static void backward_scratch(const struct pe_attention *p, uintptr_t *memory, struct backward *w) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width);
    int64_t kept = group_of(p) == 1 ? TILE : p->keys, wide = most(width, values);
    int64_t far_q = p->on_query.weight ? 2 * p->queries : 0;
    int64_t far_v = p->on_value.weight ? 2 * p->queries : 0;
    int gathers = p->on_query.weight || p->on_key.weight || p->on_value.weight;
    w->q = take(memory, TILE * width);
    w->k = take(memory, TILE * width);
    w->v = take(memory, TILE * values);
    w->grad_out = take(memory, TILE * values);
    w->k_columns = take(memory, p->width * TILE);
    w->v_columns = take(memory, p->value_width * TILE);
    w->scores = take_tile(memory);
    w->grad_weights = take_tile(memory);
    w->weights = take_tile(memory);
    w->grads = take_tile(memory);
    w->mirror = take_tile(memory);
    w->bias = take(memory, REACH);
    w->beside = take(memory, TILE);
    w->key_sums = take(memory, TILE);
    w->diagonals = take(memory, REACH);
    w->columns = take(memory, gathers ? wide * REACH : wide);
    w->slice = take(memory, gathers ? wide * REACH : 0);
    w->slice_grad = take(memory, gathers ? wide * REACH : 0);
    w->grad_q = take(memory, p->chunks == 1 ? p->queries * width : 0);
    w->grad_k = take(memory, kept * width);
    w->grad_v = take(memory, kept * values);
    w->delta = take(memory, p->queries);
    w->query_table = take_columns(memory, &p->on_query, p->width);
    w->key_table = take_columns(memory, &p->on_key, p->width);
    w->value_table = take_columns(memory, &p->on_value, p->value_width);
    w->query_far = take(memory, far_q);
    w->query_sum = take(memory, far_q);
    w->value_far = take(memory, far_v);
    w->value_sum = take(memory, far_v);
    w->key_far = take(memory, 2 * TILE);
    w->q_words = take(memory, paired(p) ? TILE * halves(p->width) : 0);
    w->k_words = take(memory, paired(p) ? TILE * halves(p->width) : 0);
    w->v_words = take(memory, paired(p) ? TILE * halves(p->value_width) : 0);
    w->grad_words = take(memory, paired(p) ? TILE * halves(p->value_width) : 0);
    w->key_sum = take(memory, 2 * TILE);
}

static void pack_tensor(const struct pe_attention *p, const void *x, const int64_t *stride,
                        int64_t b, int64_t h, const struct tile *t, int64_t width, REAL *to) {
    pack_rows(x, p->type, b * stride[0] + h * stride[1] + t->start * stride[2], stride[2],
              t->count, width, to, pitch_of(width));
}

static void word_tensor(const struct pe_attention *p, const void *x, const int64_t *stride,
                        int64_t b, int64_t h, const struct tile *t, int64_t width, int transposed,
                        REAL *to) {
    if (paired(p))
        pack_words(x, b * stride[0] + h * stride[1] + t->start * stride[2], stride[2], t->count,
                   width, transposed, to);
}

static void pack_queries(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                         const struct tile *q) {
    pack_tensor(p, p->q, p->q_stride, b, h, q, p->width, w->q);
    pack_tensor(p, p->grad_out, p->grad_stride, b, h, q, p->value_width, w->grad_out);
}

/* Of each query grad_out . out, and what the far ends of tables give it. */
static void prepare_head(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                         const struct tile *q, int64_t q_count) {
    int64_t values = pitch_of(p->value_width);
    int64_t out_stride[3] = {p->heads * p->queries * p->value_width, p->queries * p->value_width,
                             p->value_width};
    transpose_table(&p->on_query, h, p->width, w->query_table);
    transpose_table(&p->on_key, h, p->width, w->key_table);
    transpose_table(&p->on_value, h, p->value_width, w->value_table);
    if (p->on_query.weight) memset(w->query_sum, 0, (size_t)p->queries * 2 * sizeof(REAL));
    if (p->on_value.weight) memset(w->value_sum, 0, (size_t)p->queries * 2 * sizeof(REAL));
    for (; q_count > 0; q++, q_count--) {
        pack_queries(p, w, b, h, q);
        pack_tensor(p, p->out, out_stride, b, h, q, p->value_width, w->v);
        for (int64_t i = 0; i < q->count; i++)
            w->delta[q->start + i] = dot(w->v + i * values, w->grad_out + i * values, values);
        far_products(&p->on_query, h, p->width, w->q, q->count, w->query_far + q->start,
                     p->queries, w->columns);
        far_products(&p->on_value, h, p->value_width, w->grad_out, q->count,
                     w->value_far + q->start, p->queries, w->columns);
    }
}

/* What the queries that met the far ends of tables in sum give to them, and get from them. */
static void finish_head(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                        REAL *grad_q, const struct tile *q, int64_t q_count) {
    if (!p->on_query.weight && !p->on_value.weight) return;
    for (; q_count > 0; q++, q_count--) {
        pack_queries(p, w, b, h, q);
        far_gradients(&p->on_query, w->slot, h, p->width, w->q, q->count,
                      w->query_sum + q->start, p->queries, (REAL)p->scale,
                      grad_q + q->start * pitch_of(p->width));
        far_gradients(&p->on_value, w->slot, h, p->value_width, w->grad_out, q->count,
                      w->value_sum + q->start, p->queries, 1, 0);
    }
}

/* Weights of one row, and gradients of its scores, which are also added to key_sums. */
INLINE void backward_row(const vr *s, const REAL *grad_weights, REAL peak, REAL factor, REAL delta,
                         REAL shift, REAL *weights, REAL *grads, REAL *key_sums) {
    const int64_t vectors = TILE / WIDE;
#pragma GCC unroll 16
    for (int64_t n = 0; n < vectors; n++) {
        vr weight = exp2_of(s[n] - peak) * factor;
        vr grad = weight * (get(grad_weights + n * WIDE) - delta + shift);
        put(weights + n * WIDE, weight);
        put(grads + n * WIDE, grad);
        if (key_sums) put(key_sums + n * WIDE, get(key_sums + n * WIDE) + grad);
    }
}

static REAL sum_of_row(const REAL *row) {
    vr total = {0};
    for (int64_t n = 0; n < TILE; n += WIDE) total += get(row + n);
    return sum_of(total);
}

/* Gradients of table and slopes: sums over the diagonals of the gradients of the scores. */
static void add_diagonals(const struct pe_attention *p, struct backward *w,
                          const struct meeting *m, int64_t h) {
    int64_t first = m->band.first + m->rows - 1, end = m->band.last + m->rows;
    for (int64_t t = first; t < end; t += WIDE) {
        int64_t shift = t - (m->rows - 1);
        int64_t from = most(0, 1 - WIDE - shift), to = least(m->rows, m->columns - shift);
        vr sum = {0}, other = {0};
        int64_t i = from;
        for (; i + 1 < to; i += 2) {
            sum += get(w->grads + i * (PITCH + 1) + shift);
            other += get(w->grads + (i + 1) * (PITCH + 1) + shift);
        }
        if (i < to) sum += get(w->grads + i * (PITCH + 1) + shift);
        put(w->diagonals + t - first, sum + other);
    }
    int64_t lowest = m->distance - (m->rows - 1);
    if (p->grad_table) {
        double *grad = p->grad_table +
                       (w->slot * p->table_heads + (p->table_heads == 1 ? 0 : h)) * p->table_rows;
        for (int64_t t = first; t < end; t++)
            grad[clamped(lowest + t + p->table_zero, p->table_rows)] += w->diagonals[t - first];
    }
    if (p->grad_past) {
        double past = 0, future = 0;
        for (int64_t t = first; t < end; t++) {
            double moment = (double)(lowest + t) * w->diagonals[t - first];
            if (lowest + t <= 0)
                past += moment;
            else
                future -= moment;
        }
        p->grad_past[w->slot * p->heads + h] += past;
        p->grad_future[w->slot * p->heads + h] += future;
    }
}

/* The scores and the gradients of the weights as the forward pass had them. */
static void meeting_products(const struct pe_attention *p, struct backward *w,
                             const struct meeting *m, int query_side, int key_side,
                             int value_side) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width);
    int64_t lowest = m->distance - (m->rows - 1);
    if (paired(p)) {
        pair_product(m, halves(p->width), w->q_words, w->k_words, w->scores);
        pair_product(m, halves(p->value_width), w->grad_words, w->v_words, w->grad_weights);
    } else {
        product(m->rows, TILE, p->width, m->band, w->q, width, w->k_columns, TILE, w->scores,
                PITCH);
        product(m->rows, TILE, p->value_width, m->band, w->grad_out, values, w->v_columns, TILE,
                w->grad_weights, PITCH);
    }
    if (p->on_query.weight && !query_side) {
        slice_columns(w->query_table, pitch_of(p->on_query.rows), p->on_query.rows, p->width,
                      lowest + p->on_query.zero, w->columns);
        add_of_queries(m, w->q, width, p->width, w->columns, w->scores);
    }
    if (p->on_key.weight && !key_side) {
        slice_columns(w->key_table, pitch_of(p->on_key.rows), p->on_key.rows, p->width,
                      lowest + p->on_key.zero, w->columns);
        add_of_keys(m, w->k, width, p->width, w->columns, w->mirror, w->scores);
    }
    if (p->on_value.weight && !value_side) {
        slice_columns(w->value_table, pitch_of(p->on_value.rows), p->on_value.rows, p->value_width,
                      lowest + p->on_value.zero, w->columns);
        add_of_queries(m, w->grad_out, values, p->value_width, w->columns, w->grad_weights);
    }
}

/* What tables of vectors get and give where a meeting is near. */
static void meeting_gathers(const struct pe_attention *p, struct backward *w,
                            const struct meeting *m, int64_t h, REAL *grad_q, REAL *grad_k,
                            int query_side, int key_side, int value_side) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width);
    int64_t lowest = m->distance - (m->rows - 1), used = padded(p->width);
    if (p->on_query.weight && !query_side) {
        const struct pe_gather *x = &p->on_query;
        slice_rows(table_of(x, h, p->width), x->rows, p->width, lowest + x->zero, REACH, w->slice,
                   width);
        gather_to_queries(m, w->grads, w->slice, width, used, grad_q, width);
        if (x->grad) {
            sum_of_queries(m, w->grads, w->q, width, used, w->slice_grad, width);
            scatter_slice(m, w->slice_grad, width, p->width, lowest + x->zero, x->rows,
                          (REAL)p->scale, grad_of(x, w->slot, h, p->width));
        }
    }
    if (p->on_key.weight && !key_side) {
        const struct pe_gather *x = &p->on_key;
        slice_rows(table_of(x, h, p->width), x->rows, p->width, lowest + x->zero, REACH, w->slice,
                   width);
        gather_to_keys(m, w->grads, w->slice, width, used, grad_k, width);
        if (x->grad) {
            sum_of_keys(m, w->grads, w->k, width, used, w->slice_grad, width);
            scatter_slice(m, w->slice_grad, width, p->width, lowest + x->zero, x->rows,
                          (REAL)p->scale, grad_of(x, w->slot, h, p->width));
        }
    }
    if (p->on_value.grad && !value_side) {
        const struct pe_gather *x = &p->on_value;
        sum_of_queries(m, w->weights, w->grad_out, values, padded(p->value_width), w->slice_grad,
                       values);
        scatter_slice(m, w->slice_grad, values, p->value_width, lowest + x->zero, x->rows, 1,
                      grad_of(x, w->slot, h, p->value_width));
    }
}

static int side_of(const struct meeting *m, const struct pe_gather *x) {
    return x->weight ? far_side(m, x->zero, x->rows) : 0;
}

static void backward_meeting(const struct pe_attention *p, struct backward *w,
                             const struct meeting *m, const struct tile *q, const struct tile *k,
                             int64_t b, int64_t h, REAL *grad_q, REAL *grad_k, REAL *grad_v) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width);
    int query_side = side_of(m, &p->on_query), key_side = side_of(m, &p->on_key);
    int value_side = side_of(m, &p->on_value);
    meeting_products(p, w, m, query_side, key_side, value_side);

    fill_bias(p, m, h, LOG2E, w->bias);
    double origin = origin_of(p, b, h, q->start);
    int plain = !fill_offsets(p, k, b, h, origin, w->beside) && !query_side && !key_side;
    REAL scale = (REAL)(p->scale * LOG2E);
    if (key_side)
        for (int64_t j = 0; j < k->count; j++)
            w->beside[j] += w->key_far[(key_side > 0) * TILE + j] * scale;
    const REAL *query_far = w->query_far + (query_side > 0) * p->queries + q->start;
    const REAL *value_far = w->value_far + (value_side > 0) * p->queries + q->start;
    const REAL *peak = (const REAL *)p->peak + (b * p->heads + h) * p->queries + q->start;
    const REAL *mass = (const REAL *)p->mass + (b * p->heads + h) * p->queries + q->start;
    REAL *key_sums = p->grad_k_offset || key_side ? w->key_sums : 0;
    if (key_sums) memset(key_sums, 0, TILE * sizeof(REAL));
    for (int64_t i = 0; i < m->rows; i++) {
        vr s[TILE / (sizeof(vf) / sizeof(REAL))];
        const REAL *content = w->scores + i * PITCH, *bias = w->bias + m->rows - 1 - i;
        REAL *weights = w->weights + i * PITCH, *grads = w->grads + i * PITCH;
        int64_t from = i + m->band.first, to = least(i + m->band.last + 1, m->columns);
        int masked = from > 0 || to < TILE;
        if (plain) {
            scores_of_row(1, content, scale, bias, w->beside, 0, masked, from, to, s, weights);
        } else {
            REAL own = p->q_offset ? (REAL)((origin_of(p, b, h, q->start + i) - origin) * LOG2E) : 0;
            own += query_side ? query_far[i] * scale : 0;
            scores_of_row(0, content, scale, bias, w->beside, own, masked, from, to, s, weights);
        }
        REAL top = mass[i] == 0 ? INFINITY : peak[i], factor = mass[i] == 0 ? 0 : 1 / mass[i];
        backward_row(s, w->grad_weights + i * PITCH, top, factor, w->delta[q->start + i],
                     value_side ? value_far[i] : 0, weights, grads, key_sums);
        if (query_side)
            w->query_sum[(query_side > 0) * p->queries + q->start + i] += sum_of_row(grads);
        if (value_side)
            w->value_sum[(value_side > 0) * p->queries + q->start + i] += sum_of_row(weights);
    }
    if (m->rows < TILE) {
        size_t below = MARGIN * PITCH * sizeof(REAL);
        memset(w->weights + m->rows * PITCH - EDGE, 0, below);
        memset(w->grads + m->rows * PITCH - EDGE, 0, below);
    }
    product_add(m->columns, padded(p->value_width), m->rows, turned(m->band), w->weights, 1, PITCH,
                w->grad_out, values, grad_v, values);
    product_add(m->columns, padded(p->width), m->rows, turned(m->band), w->grads, 1, PITCH, w->q,
                width, grad_k, width);
    product_add(m->rows, padded(p->width), m->columns, m->band, w->grads, PITCH, 1, w->k, width,
                grad_q + q->start * width, width);
    meeting_gathers(p, w, m, h, grad_q + q->start * width, grad_k, query_side, key_side,
                    value_side);
    if (p->grad_table || p->grad_past) add_diagonals(p, w, m, h);
    if (p->grad_k_offset)
        for (int64_t j = 0; j < k->count; j++)
            p->grad_k_offset[(b * p->heads + h) * p->keys + k->start + j] += key_sums[j];
    if (key_side)
        for (int64_t j = 0; j < k->count; j++)
            w->key_sum[(key_side > 0) * TILE + j] += key_sums[j];
}

static void backward_keys(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                          const struct tile *q, int64_t q_count, const struct tile *k,
                          REAL *grad_q, REAL *grad_k, REAL *grad_v) {
    int64_t g = h / group_of(p), width = pitch_of(p->width), packed = 0;
    for (; q_count > 0; q++, q_count--) {
        struct meeting m;
        if (!meet(p, q, k, &m)) continue;
        if (!packed) {
            pack_tensor(p, p->k, p->k_stride, b, g, k, p->width, w->k);
            if (!paired(p)) transpose(w->k, width, k->count, p->width, w->k_columns);
            pack_tensor(p, p->v, p->v_stride, b, g, k, p->value_width, w->v);
            if (!paired(p))
                transpose(w->v, pitch_of(p->value_width), k->count, p->value_width, w->v_columns);
            word_tensor(p, p->k, p->k_stride, b, g, k, p->width, 1, w->k_words);
            word_tensor(p, p->v, p->v_stride, b, g, k, p->value_width, 1, w->v_words);
            far_products(&p->on_key, h, p->width, w->k, k->count, w->key_far, TILE, w->columns);
            memset(w->key_sum, 0, 2 * TILE * sizeof(REAL));
            packed = 1;
        }
        pack_queries(p, w, b, h, q);
        word_tensor(p, p->q, p->q_stride, b, h, q, p->width, 0, w->q_words);
        word_tensor(p, p->grad_out, p->grad_stride, b, h, q, p->value_width, 0, w->grad_words);
        backward_meeting(p, w, &m, q, k, b, h, grad_q, grad_k, grad_v);
    }
    if (packed)
        far_gradients(&p->on_key, w->slot, h, p->width, w->k, k->count, w->key_sum, TILE,
                      (REAL)p->scale, grad_k);
}

static int64_t chunk_size(const struct pe_attention *p) {
    return p->batch * p->heads * p->queries * pitch_of(p->width);
}

static int64_t chunks_bytes(const struct pe_attention *p) {
    return p->chunks == 1 ? 0 : p->chunks * chunk_size(p) * (int64_t)sizeof(REAL);
}

/* Every chunks-th tile of keys, of one row of the batch and one key head with its query heads. */
static void backward_task(const struct pe_attention *p, struct backward *w, int64_t b, int64_t g,
                          int64_t chunk, const struct tile *q, int64_t q_count,
                          const struct tile *k, int64_t k_count) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width), group = group_of(p);
    int64_t kept = group == 1 ? 0 : 1, head_size = p->queries * width;
    if (kept) {
        memset(w->grad_k, 0, (size_t)(p->keys * width) * sizeof(REAL));
        memset(w->grad_v, 0, (size_t)(p->keys * values) * sizeof(REAL));
    }
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        REAL *grad_q = w->grad_q;
        if (p->chunks > 1)
            grad_q = w->partial + chunk * chunk_size(p) + (b * p->heads + h) * head_size;
        memset(grad_q, 0, (size_t)head_size * sizeof(REAL));
        prepare_head(p, w, b, h, q, q_count);
        for (int64_t i = chunk; i < k_count; i += p->chunks) {
            int64_t row = kept ? k[i].start : 0;
            REAL *grad_k = w->grad_k + row * width, *grad_v = w->grad_v + row * values;
            if (!kept) {
                memset(grad_k, 0, (size_t)(TILE * width) * sizeof(REAL));
                memset(grad_v, 0, (size_t)(TILE * values) * sizeof(REAL));
            }
            backward_keys(p, w, b, h, q, q_count, k + i, grad_q, grad_k, grad_v);
            if (h + 1 < (g + 1) * group) continue;
            int64_t at = (b * p->key_heads + g) * p->keys + k[i].start;
            unpack_rows(grad_k, width, (REAL)p->scale, k[i].count, p->width, p->grad_k, p->type,
                        at * p->width);
            unpack_rows(grad_v, values, 1, k[i].count, p->value_width, p->grad_v, p->type,
                        at * p->value_width);
        }
        finish_head(p, w, b, h, grad_q, q, q_count);
        if (p->chunks == 1)
            unpack_rows(grad_q, width, (REAL)p->scale, p->queries, p->width, p->grad_q, p->type,
                        (b * p->heads + h) * p->queries * p->width);
    }
}

/* The gradient of q out of what every chunk of keys gave to it, in their order. */
static void reduce_chunks(const struct pe_attention *p, REAL *partial) {
    if (p->chunks == 1) return;
    int64_t width = pitch_of(p->width), rows = p->batch * p->heads * p->queries;
#pragma omp parallel for num_threads((int)p->workers) schedule(static) if (p->workers > 1)
    for (int64_t r = 0; r < rows; r++) {
        REAL *sum = partial + r * width;
        for (int64_t chunk = 1; chunk < p->chunks; chunk++)
            add_row(sum, 1, partial + chunk * chunk_size(p) + r * width, p->width);
        unpack_rows(sum, width, (REAL)p->scale, 1, p->width, p->grad_q, p->type, r * p->width);
    }
}
