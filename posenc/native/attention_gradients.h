/* A tile of queries meets a tile of keys in the backward pass: gradients of all that made their
   scores. Weights are computed again from the peaks and masses of the forward pass. */

/* Weights of one row, and gradients of its scores, which are also added to key_sums. Both are zero
   for what is not seen, even where the gradient of its weight is NaN or was never computed, and
   outside the vectors `first` to `end`. */
INLINE void backward_row(const vr *s, int64_t first, int64_t end, const REAL *grad_weights,
                         REAL peak, REAL factor, REAL delta, REAL shift, REAL *weights,
                         REAL *grads, REAL *key_sums) {
    const int64_t vectors = TILE / WIDE;
#pragma GCC unroll 16
    for (int64_t n = 0; n < vectors; n++) {
        if (n < first || n >= end) {
            put(weights + n * WIDE, (vr){0});
            put(grads + n * WIDE, (vr){0});
            continue;
        }
        vw seen = (vw)(s[n] != -INFINITY);
        vr weight = chosen(seen, exp16_of(s[n] - peak) * factor);
        vr grad = chosen(seen, weight * (get(grad_weights + n * WIDE) - delta + shift));
        put(weights + n * WIDE, weight);
        put(grads + n * WIDE, grad);
        if (key_sums) put(key_sums + n * WIDE, get(key_sums + n * WIDE) + grad);
    }
}

/* Gradients of table and slopes: sums over the diagonals of the gradients of the scores. */
static void add_diagonals(const struct pe_attention *p, struct backward *w,
                          const struct meeting *m, int64_t h) {
    int64_t first = m->band.first + m->rows - 1, end = m->band.last + m->rows;
    sum_diagonals(m, w->grads, w->diagonals);
    int64_t lowest = m->distance - (m->rows - 1);
    if (p->table.grad) {
        double *grad = (double *)p->table.grad +
                       (w->slot * p->table.heads + (p->table.heads == 1 ? 0 : h)) * p->table.rows;
        for (int64_t t = first; t < end; t++)
            grad[clamped(lowest + t + p->table.zero, p->table.rows)] += w->diagonals[t - first];
    }
    if (p->past_grad) {
        double past = 0, future = 0;
        for (int64_t t = first; t < end; t++) {
            double moment = (double)(lowest + t) * w->diagonals[t - first];
            if (lowest + t <= 0)
                past += moment;
            else
                future -= moment;
        }
        p->past_grad[w->slot * p->heads + h] += past;
        p->future_grad[w->slot * p->heads + h] += future;
    }
}

/* The scores and the gradients of the weights as the forward pass had them. */
static void meeting_products(const struct pe_attention *p, struct backward *w,
                             const struct meeting *m, int query_side, int key_side,
                             int value_side) {
    int64_t lowest = m->distance - (m->rows - 1);
    multiply_rows(p, m, p->width, w->q, w->q_words, w->k_columns, w->k_words, w->scores);
    multiply_rows(p, m, p->value_width, w->grad_out, w->grad_words, w->v_columns, w->v_words,
                  w->grad_weights);
    if (p->on_query.weight && !query_side) {
        add_of_queries(w->of_query, m, p->width, w->q, w->q_words, w->query_table,
                       p->on_query.rows, lowest + p->on_query.zero, w->columns, w->scores);
    }
    if (p->on_key.weight && !key_side) {
        add_of_keys(w->of_key, m, p->width, w->k, w->k_rows, w->key_table, p->on_key.rows,
                    lowest + p->on_key.zero, w->columns, w->mirror, w->scores);
    }
    if (p->on_value.weight && !value_side) {
        add_of_queries(w->of_value, m, p->value_width, w->grad_out, w->grad_words,
                       w->value_table, p->on_value.rows, lowest + p->on_value.zero, w->columns,
                       w->grad_weights);
    }
}

/* The vectors of a meeting's distances, of head h. */
static const REAL *slice_factors(enum factors kind, struct backward *w, const struct meeting *m,
                                 const struct pe_table *x, int64_t h, int64_t width) {
    int64_t pitch = pitch_of(width), first = m->distance - (m->rows - 1) + x->zero;
    const REAL *slice = slice_rows(table_of(x, h, width), x->rows, width, first, w->slice);
    if (kind == NUMBERS) return slice;
    pair_rows(slice, pitch, REACH, pitch, w->slice_pairs, pitch);
    return w->slice_pairs;
}

/* What tables of vectors get and give where a meeting is near. */
static void meeting_gathers(const struct pe_attention *p, struct backward *w,
                            const struct meeting *m, int64_t h, REAL *q_grad, REAL *k_grad,
                            int query_side, int key_side, int value_side) {
    const enum factors kind = sums_by_pairs(p) && m->height > 1 ? WORDS : NUMBERS;
    /* Squares take a tile as it is. */
    const int words = kind == WORDS && !HAS_MATRIX;
    const REAL *tile = words ? w->tile_words : w->grads;
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width);
    int64_t lowest = m->distance - (m->rows - 1), used = padded(p->width);
    if (p->on_query.weight && !query_side) {
        const struct pe_table *x = &p->on_query;
        if (words) pair_tile(w->grads, m->rows, 1, w->tile_words);
        gather_to_queries(kind, m, tile, slice_factors(kind, w, m, x, h, p->width), width, used,
                          q_grad, width);
        if (x->grad) {
            sum_of_queries(m, w->grads, w->q, width, used, w->slice_grad);
            scatter_slice(m, w->slice_grad, width, p->width, lowest + x->zero, x->rows,
                          (REAL)p->scale, grad_of(x, w->slot, h, p->width));
        }
    }
    if (p->on_key.weight && !key_side) {
        const struct pe_table *x = &p->on_key;
        if (words) pair_tile(w->grads, m->rows, -PITCH, w->tile_words);
        gather_to_keys(kind, m, tile, slice_factors(kind, w, m, x, h, p->width), width, used,
                       k_grad, width);
        if (x->grad) {
            sum_of_keys(m, w->grads, w->k, width, used, w->slice_grad);
            scatter_slice(m, w->slice_grad, width, p->width, lowest + x->zero, x->rows,
                          (REAL)p->scale, grad_of(x, w->slot, h, p->width));
        }
    }
    if (p->on_value.grad && !value_side) {
        const struct pe_table *x = &p->on_value;
        sum_of_queries(m, w->weights, w->grad_out, values, padded(p->value_width), w->slice_grad);
        scatter_slice(m, w->slice_grad, values, p->value_width, lowest + x->zero, x->rows, 1,
                      grad_of(x, w->slot, h, p->value_width));
    }
}

static int side_of(const struct meeting *m, const struct pe_table *x) {
    return x->weight ? far_side(m, x->zero, x->rows) : 0;
}

static void backward_meeting(const struct pe_attention *p, struct backward *w,
                             const struct meeting *m, const struct tile *q, const struct tile *k,
                             int64_t b, int64_t h, REAL *q_grad, REAL *k_grad, REAL *v_grad) {
    int64_t width = pitch_of(p->width);
    int query_side = side_of(m, &p->on_query), key_side = side_of(m, &p->on_key);
    int value_side = side_of(m, &p->on_value);
    meeting_products(p, w, m, query_side, key_side, value_side);

    fill_bias(p, m, h, w->bias);
    network_meet(p, &w->network, m, q, b);
    grid_meet(p, &w->grid, m, k, b);
    int plain = !fill_offsets(p, k, b, h, w->beside, w->rest) && !query_side && !key_side;
    REAL scale = (REAL)(p->scale * LOG16E);
    if (key_side)
        for (int64_t j = 0; j < k->count; j++)
            w->rest[j] += w->key_far[(key_side > 0) * TILE + j] * scale;
    const REAL *query_far = w->query_far + (query_side > 0) * p->queries + q->start;
    const REAL *value_far = w->value_far + (value_side > 0) * p->queries + q->start;
    const REAL *peak = (const REAL *)p->peak + (b * p->heads + h) * p->queries + q->start;
    const REAL *factor = w->factor + q->start;
    double *row_sums = p->q_offset_grad;
    if (row_sums)
        row_sums += ((w->chunk * p->batch + b) * p->heads + h) * p->queries + q->start;
    REAL *key_sums = p->k_offset_grad || key_side ? w->key_sums : 0;
    if (p->by_count) learn_counts(p, &w->counting, m, factor, w->scores), scale = 1;
    if (key_sums) memset(key_sums, 0, TILE * sizeof(REAL));
    for (int64_t i = 0; i < m->rows; i++) {
        if (by_matrix(p) && i % 4 == 0) keep_awake();
        vr s[TILE / (sizeof(vf) / sizeof(REAL))];
        const REAL *content = w->scores + i * PITCH, *bias = w->bias + m->rows - 1 - i;
        REAL *weights = w->weights + i * PITCH, *grads = w->grads + i * PITCH;
        if (factor[i] == 0) {
            memset(weights, 0, TILE * sizeof(REAL));
            memset(grads, 0, TILE * sizeof(REAL));
            continue;
        }
        struct seen seen = seen_of(i + m->band.first, least(i + m->band.last + 1, m->columns));
        bias = network_row(p, &w->network, m, bias, i);
        bias = grid_row(p, &w->grid, q, b, i, bias);
        REAL own[2];
        offset_of(p, b, h, q->start + i, query_side ? query_far[i] * scale : 0, own);
        REAL kept[TILE], shift = value_side ? value_far[i] : 0;
        if (p->dropout > 0) {
            draw_kept(p, b, h, q->start + i, k->start, kept);
            keep(kept, shift, w->grad_weights + i * PITCH);
            shift = 0;
        }
        const REAL *grad_weights = w->grad_weights + i * PITCH;
        REAL delta = w->delta[q->start + i];
        scores_of_any_row(plain, content, scale, bias, w->beside, w->rest, own, &seen, s);
        if (seen.masked)
            backward_row(s, seen.first, seen.end, grad_weights, peak[i], factor[i], delta, shift,
                         weights, grads, key_sums);
        else
            backward_row(s, 0, TILE / WIDE, grad_weights, peak[i], factor[i], delta, shift, weights,
                         grads, key_sums);
        if (p->dropout > 0) keep(kept, 0, weights);
        if (row_sums) row_sums[i] += sum_of_row(grads);
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
    if (p->table.grad || p->past_grad) add_diagonals(p, w, m, h);
    network_gradients(p, &w->network, w->slot, m, q, b, w->grads);
    grid_gradients(p, &w->grid, w->slot, m, q, b, h, w->grads);
    if (p->by_count) gate_gradients(p, &w->counting, m, factor, w->grads);
    int by_pairs = sums_by_pairs(p);
    add_to_keys(by_pairs, m, p->value_width, w->weights, w->words, w->grad_out, w->grad_pairs,
                v_grad);
    add_to_keys(by_pairs, m, p->width, w->grads, w->words, w->q, w->q_pairs, k_grad);
    add_to_queries(by_pairs, m, p->width, w->grads, w->words, w->k, w->k_pairs,
                   q_grad + q->start * width);
    meeting_gathers(p, w, m, h, q_grad + q->start * width, k_grad, query_side, key_side,
                    value_side);
    if (p->k_offset_grad)
        for (int64_t j = 0; j < k->count; j++)
            p->k_offset_grad[((w->chunk * p->batch + b) * p->heads + h) * p->keys + k->start + j] += key_sums[j];
    if (key_side)
        for (int64_t j = 0; j < k->count; j++)
            w->key_sum[(key_side > 0) * TILE + j] += key_sums[j];
}
