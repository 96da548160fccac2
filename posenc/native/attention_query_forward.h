/* The forward pass of one query. */

INLINE int lone(const struct pe_attention *p) { return p->queries == 1; }

/* The query, first row of the block, meets a tile of keys. */
static void query_meeting(const struct pe_attention *p, struct forward *w, const struct meeting *m,
                          const struct tile *q, const struct tile *k, int64_t b, int64_t h) {
    int64_t own = h / (p->heads / p->key_heads);
    int64_t from = most(m->band.first, 0), to = least(m->band.last + 1, m->columns);
    struct rows keys = rows_of(
        p->k, p->type, b * p->k_stride[0] + own * p->k_stride[1] + k->start * p->k_stride[2],
        p->k_stride[2], k->count, p->width, w->k);
    dots(1, &keys, from, to, w->q, 0, 0, w->scores);

    REAL scale = (REAL)(p->scale * LOG16E), all_keys = 0;
    fill_bias(p, m, h, w->bias);
    network_meet(p, &w->network, m, q, b);
    grid_meet(p, &w->grid, m, k, b);
    double origin = origin_of(p, b, h, q);
    fill_offsets(p, k, b, h, origin, w->beside);
    if (p->q_offset) all_keys = (REAL)((offset_of(p, b, h, q->start) - origin) * LOG16E);
    if (p->on_query.weight) {
        int side = far_side(m, p->on_query.zero, p->on_query.rows);
        if (side)
            all_keys += w->far[(side > 0) * BLOCK_ROWS] * scale;
        else
            dots_with_table(&p->on_query, h, p->width, from, to, m->distance + p->on_query.zero,
                            w->q, w->table_rows, w->scores);
    }
    if (p->on_key.weight)
        dots_of_keys(&p->on_key, h, p->width, from, to, m->distance + p->on_key.zero, &keys,
                     w->table_rows, w->scores);
    if (p->by_count) add_counts(p, &w->counting, m, 0, w->scores), scale = 1;

    vr s[TILE / (sizeof(vf) / sizeof(REAL))];
    const REAL *bias = network_row(p, &w->network, m, w->bias, 0);
    bias = grid_row(p, &w->grid, q, b, 0, bias);
    scores_of_row(0, w->scores, scale, bias, w->beside, all_keys, from > 0 || to < TILE, from, to,
                  s, w->weights);
    soften_row(s, w->weights, w->peak, w->sum, w->out, pitch_of(p->value_width), w->far_sum);
    if (p->dropout > 0) drop_row(p, b, h, q->start, k->start, w->weights);

    struct rows values = rows_of(
        p->v, p->type, b * p->v_stride[0] + own * p->v_stride[1] + k->start * p->v_stride[2],
        p->v_stride[2], k->count, p->value_width, w->v);
    blend(1, &values, from, to, w->weights, w->out, 0);
    if (!p->on_value.weight) return;
    int side = far_side(m, p->on_value.zero, p->on_value.rows);
    if (side)
        w->far_sum[(side > 0) * BLOCK_ROWS] += sum_of_row(w->weights);
    else
        blend_table(&p->on_value, h, p->value_width, from, to, m->distance + p->on_value.zero,
                    w->weights, w->table_rows, w->out);
}
