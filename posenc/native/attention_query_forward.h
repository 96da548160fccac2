/* The forward pass of one query: query heads that share a key head are rows of a block, and read its
   keys once. */

INLINE int lone(const struct pe_attention *p) { return p->queries == 1; }

/* Query heads that go together: all that share keys, unless workers would be idle. Networks and
   grids are prepared for one head. */
static int64_t heads_together(const struct pe_attention *p) {
    int64_t shared = p->heads / p->key_heads;
    int prepared = p->network.by_distance.weight || p->grid.table.weight;
    int apart = prepared || shared > TILE || p->batch * p->key_heads < p->workers;
    return lone(p) && !apart ? shared : 1;
}

/* The scores of head h, row `row` of the block, with a tile of keys become its weights. */
INLINE void query_row(const struct pe_attention *p, struct forward *w, const struct meeting *m,
                      const struct tile *q, const struct tile *k, int64_t b, int64_t h, int64_t row,
                      int64_t from, int64_t to, const struct rows *keys) {
    const REAL *query = w->q + row * pitch_of(p->width);
    REAL *scores = w->scores + row * TILE, *weights = w->weights + row * TILE;
    REAL scale = (REAL)(p->scale * LOG16E), far = 0, all_keys[2];
    int64_t values = pitch_of(p->value_width);
    fill_bias(p, m, h, w->bias);
    network_meet(p, &w->network, m, q, b);
    grid_meet(p, &w->grid, m, k, b);
    fill_offsets(p, k, b, h, w->beside, w->rest);
    if (p->on_query.weight) {
        int side = far_side(m, p->on_query.zero, p->on_query.rows);
        if (side)
            far = w->far[(side > 0) * BLOCK_ROWS + row] * scale;
        else
            dots_with_table(&p->on_query, h, p->width, from, to, m->distance + p->on_query.zero,
                            query, w->table_rows, scores);
    }
    if (p->on_key.weight)
        dots_of_keys(&p->on_key, h, p->width, from, to, m->distance + p->on_key.zero, keys,
                     w->table_rows, scores);
    if (p->by_count) add_counts(p, &w->counting, m, row, scores), scale = 1;

    vr s[TILE / (sizeof(vf) / sizeof(REAL))];
    const REAL *bias = network_row(p, &w->network, m, w->bias, 0);
    bias = grid_row(p, &w->grid, q, b, 0, bias);
    struct seen seen = seen_of(from, to);
    offset_of(p, b, h, q->start, far, all_keys);
    scores_of_row(0, 1, scores, scale, bias, w->beside, w->rest, all_keys, &seen, s);
    soften_row(0, s, seen.first, seen.end, weights, w->peak + row, w->sum + row * WIDE,
               w->out + row * values, values, w->far_sum + row);
    if (p->dropout > 0) drop_row(p, b, h, q->start, k->start, weights);
}

/* What the table of values gives head h, row `row` of the block, for its weights. */
INLINE void query_values(const struct pe_attention *p, struct forward *w, const struct meeting *m,
                         int64_t h, int64_t row, int64_t from, int64_t to) {
    if (!p->on_value.weight) return;
    const REAL *weights = w->weights + row * TILE;
    int side = far_side(m, p->on_value.zero, p->on_value.rows);
    if (side)
        w->far_sum[(side > 0) * BLOCK_ROWS + row] += sum_of_row(weights);
    else
        blend_table(&p->on_value, h, p->value_width, from, to, m->distance + p->on_value.zero,
                    weights, w->table_rows, w->out + row * pitch_of(p->value_width));
}

/* The query of heads h .. h + heads - 1 meets a tile of the keys that they share. */
static void query_meeting(const struct pe_attention *p, struct forward *w, const struct meeting *m,
                          const struct tile *q, const struct tile *k, int64_t b, int64_t h,
                          int64_t heads) {
    int64_t own = h / (p->heads / p->key_heads), some;
    int64_t width = pitch_of(p->width), pitch = pitch_of(p->value_width);
    int64_t from = most(m->band.first, 0), to = least(m->band.last + 1, m->columns);
    struct rows keys = rows_of(
        p->k, p->type, b * p->k_stride[0] + own * p->k_stride[1] + k->start * p->k_stride[2],
        p->k_stride[2], k->count, p->width, w->k);
    for (int64_t r = 0; r < heads; r += some) {
        some = together(keys.type, heads - r);
        dots(some, &keys, from, to, w->q + r * width, width, 0, w->scores + r * TILE);
    }
    for (int64_t r = 0; r < heads; r++)
        query_row(p, w, m, q, k, b, h + r, r, from, to, &keys);
    struct rows values = rows_of(
        p->v, p->type, b * p->v_stride[0] + own * p->v_stride[1] + k->start * p->v_stride[2],
        p->v_stride[2], k->count, p->value_width, w->v);
    for (int64_t r = 0; r < heads; r += some) {
        some = together(values.type, heads - r);
        blend(some, &values, from, to, w->weights + r * TILE, w->out + r * pitch, pitch);
    }
    for (int64_t r = 0; r < heads; r++) query_values(p, w, m, h + r, r, from, to);
}

/* The query of these heads meets all keys that it sees, of one zone where there are two. */
static void query_keys(const struct pe_attention *p, struct forward *w, int64_t b, int64_t h,
                       int64_t heads, const struct tile *q, const struct tile *keys,
                       int64_t k_count) {
    int64_t pitch = pitch_of(p->width);
    pack_rows(p->q, p->type, b * p->q_stride[0] + h * p->q_stride[1], p->q_stride[1], heads,
              p->width, w->q, pitch);
    for (int64_t r = 0; r < heads; r++) {
        if (p->by_count) start_counts(p, &w->counting, b, h + r, 0, r, 1);
        far_products(&p->on_query, h + r, p->width, w->q + r * pitch, 1, w->far + r, BLOCK_ROWS,
                     w->columns);
    }
    /* Counts begin at the last key. When they have ended, other keys may come in any order, and are
       read upwards, which is faster. */
    int64_t met = 0, left = k_count;
    while (met < left) {
        int down = p->by_count && !all_counted_out(p, &w->counting, heads);
        const struct tile *k = keys + (down ? --left : met++);
        struct meeting m;
        if (meet(p, q, k, &m)) query_meeting(p, w, &m, q, k, b, h, heads);
    }
}
