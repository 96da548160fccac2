/* What one worker of the backward pass keeps, and how it fills it. */

struct backward {
    REAL *q, *k, *v, *grad_out, *k_columns, *v_columns, *scores, *grad_weights, *weights, *grads;
    REAL *mirror, *bias, *beside, *rest, *columns, *slice, *slice_grad, *key_sums, *diagonals;
    REAL *q_grad, *k_grad, *v_grad;
    /* Of each query what is taken off the gradients of its weights (grad_out . out, less grad_mass *
       mass), 1 / mass, and whether its tile holds finite numbers alone. Where 1 / mass is 0 the query
       has no gradient: it sees nothing, or nothing was made of its output. */
    REAL *delta, *factor, *finite;
    REAL *query_table, *key_table, *value_table;
    enum factors of_query, of_key, of_value;
    /* Of each query and far end of a table: what the table adds, and sums of what met it. */
    REAL *query_far, *value_far, *query_sum, *value_sum, *key_far, *key_sum;
    REAL *partial;
    /* Words of bfloat16, where products go by pairs: of neighbours in rows, of neighbouring rows,
       and of weights. */
    REAL *q_words, *k_words, *v_words, *grad_words, *q_pairs, *k_pairs, *grad_pairs, *words;
    /* Of keys by row, as k_words has them by column, and of a slice and a tile that meet. */
    REAL *k_rows, *slice_pairs, *tile_words;
    struct counting counting;
    struct network network;
    struct grid grid;
    int64_t slot, chunk;
    int finite_tables;
    /* Whether some tokens meet beyond an end of a table. */
    int far_queries, far_keys, far_values;
};

static int64_t group_of(const struct pe_attention *p) { return p->heads / p->key_heads; }

/* Whether gradients of keys are kept for a whole head: sums over query heads, zones or blocks. */
static int keeps_keys(const struct pe_attention *p) {
    return group_of(p) > 1 || zones_of(p) > 1 || p->by_count;
}

static void backward_scratch(const struct pe_attention *p, struct scratch *memory, struct backward *w) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width);
    int64_t kept = keeps_keys(p) ? p->keys : TILE, wide = most(width, values);
    /* Counts take queries by blocks, which meet the keys together. */
    int64_t rows = p->by_count ? BLOCK_ROWS : TILE;
    int64_t far_q = p->on_query.weight ? 2 * p->queries : 0;
    int64_t far_v = p->on_value.weight ? 2 * p->queries : 0;
    int gathers = has_vectors(p);
    w->q = take(memory, rows * width);
    w->k = take(memory, TILE * width);
    w->v = take(memory, TILE * values);
    w->grad_out = take(memory, rows * values);
    w->k_columns = take(memory, p->width * TILE);
    w->v_columns = take(memory, p->value_width * TILE);
    w->scores = take_tile(memory);
    w->grad_weights = take_tile(memory);
    w->weights = take_tile(memory);
    w->grads = take_tile(memory);
    w->mirror = take_tile(memory);
    w->bias = take(memory, REACH);
    w->beside = take(memory, TILE);
    w->rest = take(memory, TILE);
    w->key_sums = take(memory, TILE);
    w->diagonals = take(memory, REACH);
    w->columns = take(memory, gathers ? wide * REACH : wide);
    w->slice = take(memory, gathers ? wide * REACH : 0);
    w->slice_grad = take(memory, gathers ? wide * REACH : 0);
    w->q_grad = take(memory, p->chunks == 1 || p->by_count ? p->queries * width : 0);
    w->k_grad = take(memory, kept * width);
    w->v_grad = take(memory, kept * values);
    w->delta = take(memory, p->queries);
    w->factor = take(memory, p->queries);
    w->finite = take(memory, p->queries);
    w->query_table = take_columns(memory, &p->on_query, p->width);
    w->key_table = take_columns(memory, &p->on_key, p->width);
    w->value_table = take_columns(memory, &p->on_value, p->value_width);
    w->query_far = take(memory, far_q);
    w->query_sum = take(memory, far_q);
    w->value_far = take(memory, far_v);
    w->value_sum = take(memory, far_v);
    w->key_far = take(memory, 2 * TILE);
    w->q_words = take(memory, paired(p) ? rows * halves(p->width) : 0);
    w->k_words = take(memory, paired(p) ? TILE * halves(p->width) : 0);
    w->v_words = take(memory, paired(p) ? TILE * halves(p->value_width) : 0);
    w->grad_words = take(memory, paired(p) ? rows * halves(p->value_width) : 0);
    w->q_pairs = take(memory, paired(p) ? rows / 2 * width : 0);
    w->k_pairs = take(memory, paired(p) ? TILE / 2 * width : 0);
    w->grad_pairs = take(memory, paired(p) ? rows / 2 * values : 0);
    w->words = take(memory, paired(p) ? TILE * TILE / 2 : 0);
    w->k_rows = take(memory, paired(p) && p->on_key.weight ? TILE * halves(p->width) : 0);
    w->slice_pairs = take(memory, paired(p) && gathers ? REACH / 2 * wide : 0);
    w->tile_words = paired(p) && gathers ? take_tile(memory) : 0;
    w->key_sum = take(memory, 2 * TILE);
    count_scratch(p, memory, BLOCK_ROWS,
                  tiles_at_most(&p->k_tokens, p->valid, p->chunk, p->keys), &w->counting);
    network_scratch(p, memory, &w->network);
    grid_scratch(p, memory, &w->grid);
}

static void pack_tensor(const struct pe_attention *p, const void *x, const int64_t *stride,
                        int64_t b, int64_t h, const struct tile *t, int64_t width, REAL *to) {
    pack_rows(x, p->type, b * stride[0] + h * stride[1] + t->start * stride[2], stride[2],
              t->count, width, to, pitch_of(width));
}

/* Rows from `start` on of a gradient, in the layout of its tensor. */
static void unpack_tensor(const struct pe_attention *p, const REAL *from, REAL factor, int64_t b,
                          int64_t h, int64_t start, int64_t count, int64_t width, void *x,
                          const int64_t *stride) {
    unpack_rows(from, pitch_of(width), factor, count, width, x, p->type,
                b * stride[0] + h * stride[1] + start * stride[2], stride[2]);
}

static void word_tensor(const struct pe_attention *p, const void *x, const int64_t *stride,
                        int64_t b, int64_t h, const struct tile *t, int64_t width, int transposed,
                        REAL *to) {
    if (paired(p))
        (transposed ? pack_word_columns : pack_words)(
            x, b * stride[0] + h * stride[1] + t->start * stride[2], stride[2], t->count, width, to);
}

static void pair_tensor(const void *x, const int64_t *stride, int64_t b, int64_t h,
                        const struct tile *t, int64_t width, REAL *to) {
    pack_pairs(x, b * stride[0] + h * stride[1] + t->start * stride[2], stride[2], t->count, width,
               to, pitch_of(width));
}

/* Queries and the gradients of their outputs; zeros where there is none, whatever the query is. */
static void pack_queries(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                         const struct tile *q) {
    int64_t width = pitch_of(p->width);
    pack_tensor(p, p->q, p->q_stride, b, h, q, p->width, w->q);
    pack_tensor(p, p->grad_out, p->grad_stride, b, h, q, p->value_width, w->grad_out);
    for (int64_t i = 0; i < q->count; i++)
        if (w->factor[q->start + i] == 0)
            memset(w->q + i * width, 0, (size_t)width * sizeof(REAL));
}

/* The same as words, where products go by pairs. */
static void word_queries(const struct pe_attention *p, struct backward *w, int64_t b, int64_t h,
                         const struct tile *q) {
    if (!paired(p)) return;
    int64_t words = halves(p->width);
    word_tensor(p, p->q, p->q_stride, b, h, q, p->width, 0, w->q_words);
    word_tensor(p, p->grad_out, p->grad_stride, b, h, q, p->value_width, 0, w->grad_words);
    pair_tensor(p->q, p->q_stride, b, h, q, p->width, w->q_pairs);
    pair_tensor(p->grad_out, p->grad_stride, b, h, q, p->value_width, w->grad_pairs);
    for (int64_t i = 0; i < q->count; i++) {
        if (w->factor[q->start + i] != 0) continue;
        memset(w->q_words + i * words, 0, (size_t)words * sizeof(REAL));
        clear_half(w->q_pairs, i, pitch_of(p->width));
    }
}
