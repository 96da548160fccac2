/* The backward pass of counts: for each block of queries, first all keys from the last to the first,
   for the counts before each tile, then from the first to the last, for a gate has the gradients of
   the counts of all older keys. Gradients of keys are kept for a whole head. */

/* The count of each row of a meeting after it, and before it in what is kept. */
static void count_meeting(const struct pe_attention *p, struct backward *w, const struct meeting *m,
                          const REAL *factor) {
    struct counting *c = &w->counting;
    int64_t open = 0;
    for (int64_t i = 0; i < m->rows && !open; i++)
        open = factor[i] != 0 && !counted_out(p, c->count[c->row + i]);
    if (!open) return;
    multiply_rows(p, m, p->width, w->q, w->q_words, w->k_columns, w->k_words, w->scores);
    for (int64_t i = 0; i < m->rows; i++) {
        int64_t from = i + m->band.first, to = least(i + m->band.last + 1, m->columns);
        double *count = c->count + c->row + i;
        if (factor[i] != 0 && !counted_out(p, *count))
            *count = count_after(w->scores + i * PITCH, (REAL)(p->scale * LOG16E), from, to, *count);
    }
}

/* Selects tile i of the block, whose first is `first`. */
static void select_tile(const struct pe_attention *p, struct backward *w, const struct backward *first,
                    int64_t i) {
    w->q = first->q + i * TILE * pitch_of(p->width);
    w->grad_out = first->grad_out + i * TILE * pitch_of(p->value_width);
    w->q_words = first->q_words + i * TILE * halves(p->width);
    w->grad_words = first->grad_words + i * TILE * halves(p->value_width);
    w->q_pairs = first->q_pairs + i * TILE / 2 * pitch_of(p->width);
    w->grad_pairs = first->grad_pairs + i * TILE / 2 * pitch_of(p->value_width);
    w->counting.row = i * TILE;
}

/* The gradient of each step of a row: of what was read at it, and on the way to it. */
static void write_steps(const struct pe_attention *p, const REAL *sums, REAL *to) {
    REAL passed = 0;
    for (int64_t n = 0; n < p->by_count_steps; n++) {
        to[n] = sums[2 * n] - sums[2 * n + 1] + passed;
        passed = sums[2 * n + 1];
    }
}

static void backward_block(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                           const struct tile *q, int64_t q_count, const struct tile *k,
                           int64_t k_count, REAL *k_grad, REAL *v_grad) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width);
    const struct backward first = *w;
    struct counting *c = &w->counting;
    struct meeting m;
    double *before = c->before;
    for (int64_t i = 0; i < q_count; i++) {
        select_tile(p, w, &first, i);
        pack_queries(p, w, b, h, q + i);
        word_queries(p, w, b, h, q + i);
        start_counts(p, c, b, h, q[i].start, c->row, q[i].count);
    }
    memset(c->pull, 0, BLOCK_ROWS * sizeof(double));
    memset(c->sums, 0, (size_t)(BLOCK_ROWS * 2 * p->by_count_steps) * sizeof(REAL));
    for (int64_t n = k_count - 1; n >= 0; n--) {
        memcpy(before + n * BLOCK_ROWS, c->count, BLOCK_ROWS * sizeof(double));
        int64_t packed = 0;
        for (int64_t i = 0; i < q_count; i++) {
            if (!meet(p, q + i, k + n, &m)) continue;
            if (!packed) pack_keys(p, w, b, h, k + n);
            packed = 1;
            select_tile(p, w, &first, i);
            count_meeting(p, w, &m, w->factor + q[i].start);
        }
    }
    for (int64_t n = 0; n < k_count; n++) {
        int64_t packed = 0;
        for (int64_t i = 0; i < q_count; i++) {
            if (!meet(p, q + i, k + n, &m)) continue;
            if (!packed) pack_keys(p, w, b, h, k + n), pack_values(p, w, b, h, k + n);
            packed = 1;
            select_tile(p, w, &first, i);
            c->before = before + n * BLOCK_ROWS;
            if (!w->finite_tables || w->finite[q[i].start] == 0) m.height = 1;
            backward_meeting(p, w, &m, q + i, k + n, b, h, w->q_grad, k_grad + k[n].start * width,
                             v_grad + k[n].start * values);
        }
    }
    c->before = before;
    for (int64_t i = 0; i < q_count; i++) {
        int64_t at = (b * p->heads + h) * p->queries + q[i].start;
        unpack_tensor(p, w->q_grad + q[i].start * width, (REAL)p->scale, b, h, q[i].start,
                      q[i].count, p->width, p->q_grad, p->q_grad_stride);
        for (int64_t r = 0; r < q[i].count && p->by_count_grad; r++)
            write_steps(p, c->sums + (i * TILE + r) * 2 * p->by_count_steps,
                        (REAL *)p->by_count_grad + (at + r) * p->by_count_steps);
    }
    select_tile(p, w, &first, 0);
}

/* The gradients of one key head. */
static void unpack_keys(const struct pe_attention *p, const REAL *k_grad, const REAL *v_grad,
                        int64_t b, int64_t g) {
    unpack_tensor(p, k_grad, (REAL)p->scale, b, g, 0, p->keys, p->width, p->k_grad,
                  p->k_grad_stride);
    unpack_tensor(p, v_grad, 1, b, g, 0, p->keys, p->value_width, p->v_grad, p->v_grad_stride);
}

/* Every chunks-th block of queries, of one row of the batch and one key head with its query heads. */
static void backward_counts_task(const struct pe_attention *p, struct backward *w, int64_t b,
                                 int64_t g, int64_t chunk, const struct tile *q, int64_t q_count,
                                 const struct tile *k, int64_t k_count) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width), group = group_of(p);
    int64_t head = b * p->key_heads + g;
    REAL *k_grad = w->k_grad, *v_grad = w->v_grad;
    if (p->chunks > 1) {
        k_grad = w->partial + chunk * chunk_size(p) + head * p->keys * (width + values);
        v_grad = k_grad + p->keys * width;
    }
    w->chunk = chunk;
    find_ends(p, w, q, q_count, k, k_count);
    memset(k_grad, 0, (size_t)(p->keys * width) * sizeof(REAL));
    memset(v_grad, 0, (size_t)(p->keys * values) * sizeof(REAL));
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        memset(w->q_grad, 0, (size_t)(p->queries * width) * sizeof(REAL));
        prepare_head(p, w, b, h, q, q_count);
        for (int64_t i = chunk * BLOCK_TILES; i < q_count; i += p->chunks * BLOCK_TILES)
            backward_block(p, w, b, h, q + i, least(BLOCK_TILES, q_count - i), k, k_count, k_grad,
                           v_grad);
        finish_head(p, w, b, h, w->q_grad, q, q_count);
    }
    if (p->chunks > 1) return;
    unpack_keys(p, k_grad, v_grad, b, g);
}

/* The gradients of k and v out of what every chunk of queries gave to them, in their order. */
static void reduce_count_chunks(const struct pe_attention *p, REAL *partial) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width), keys = p->keys;
    int64_t heads = p->batch * p->key_heads, size = keys * (width + values);
#pragma omp parallel for num_threads((int)p->workers) schedule(static) if (p->workers > 1)
    for (int64_t head = 0; head < heads; head++) {
        REAL *sum = partial + head * size;
        for (int64_t chunk = 1; chunk < p->chunks; chunk++)
            add_row(sum, 1, partial + chunk * chunk_size(p) + head * size, size);
        unpack_keys(p, sum, sum + keys * width, head / p->key_heads, head % p->key_heads);
    }
}
