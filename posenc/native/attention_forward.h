/* The forward pass: for a block of query tiles of one head, all keys that any of them sees. */

/* What one worker keeps; `head` is whose tables are transposed, of words or of numbers. */
struct forward {
    REAL *q, *k, *k_columns, *v, *out, *sum, *peak, *scores, *weights, *mirror, *bias, *beside, *rest;
    REAL *query_table, *key_table, *columns, *value_slice, *far, *far_sum, *key_far, *far_rest;
    REAL *table_rows;
    /* Words of bfloat16, where products go by pairs. */
    REAL *q_words, *k_words, *k_rows, *v_pairs, *words;
    struct counting counting;
    struct network network;
    struct grid grid;
    int64_t head;
    int finite_values, finite_table, offsets;
    enum factors of_query, of_key;
};

static void forward_scratch(const struct pe_attention *p, struct scratch *memory, struct forward *w) {
    int64_t width = pitch_of(p->width), values = pitch_of(p->value_width);
    w->q = take(memory, BLOCK_ROWS * width);
    w->k = take(memory, TILE * width);
    w->k_columns = take(memory, p->width * TILE);
    w->v = take(memory, TILE * values);
    w->out = take(memory, BLOCK_ROWS * values);
    w->sum = take(memory, BLOCK_ROWS * WIDE);
    w->peak = take(memory, BLOCK_ROWS);
    w->scores = take_tile(memory);
    w->weights = take_tile(memory);
    w->mirror = p->on_key.weight ? take_tile(memory) : 0;
    w->bias = take(memory, REACH);
    w->beside = take(memory, TILE);
    w->rest = take(memory, TILE);
    w->query_table = take_columns(memory, &p->on_query, p->width);
    w->key_table = take_columns(memory, &p->on_key, p->width);
    w->columns = take(memory, p->width * REACH);
    w->value_slice = p->on_value.weight ? take(memory, REACH * values) : 0;
    w->far = take(memory, 2 * BLOCK_ROWS);
    w->far_sum = take(memory, 2 * BLOCK_ROWS);
    w->key_far = take(memory, 2 * TILE);
    w->far_rest = take(memory, TILE);
    w->table_rows = take(memory, TILE * most(width, values));
    w->q_words = take(memory, paired(p) ? BLOCK_ROWS * halves(p->width) : 0);
    w->k_words = take(memory, paired(p) ? TILE * halves(p->width) : 0);
    w->k_rows = take(memory, paired(p) && p->on_key.weight ? TILE * halves(p->width) : 0);
    w->v_pairs = take(memory, paired(p) ? TILE / 2 * values : 0);
    w->words = take(memory, paired(p) ? TILE * TILE / 2 : 0);
    count_scratch(p, memory, BLOCK_ROWS, 0, &w->counting);
    network_scratch(p, memory, &w->network);
    grid_scratch(p, memory, &w->grid);
    w->head = -1;
}

/* Rows of a tile of queries, rows `row` on of the block, meet the packed tile of keys; of_distance[t]
   is the bias of their distances. */
static void forward_meeting(const struct pe_attention *p, struct forward *w,
                            const struct meeting *m, const struct tile *q, const struct tile *k,
                            int64_t b, int64_t h, int64_t row, const REAL *of_distance) {
    int64_t pitch = pitch_of(p->width), values = pitch_of(p->value_width);
    int64_t lowest = m->distance - (m->rows - 1);
    const REAL *queries = w->q + row * pitch, *words = w->q_words + row * halves(p->width);
    multiply_rows(p, m, p->width, queries, words, w->k_columns, w->k_words, w->scores);

    network_meet(p, &w->network, m, q, b);
    grid_meet(p, &w->grid, m, k, b);
    int plain = !w->offsets;
    const REAL *far = 0, *rest = w->rest;
    if (p->on_query.weight) {
        int64_t first = lowest + p->on_query.zero, rows = p->on_query.rows;
        int side = far_side(m, p->on_query.zero, rows);
        if (side) {
            far = w->far + (side > 0) * BLOCK_ROWS + row;
            plain = 0;
        } else {
            add_of_queries(w->of_query, m, p->width, queries, words, w->query_table, rows, first,
                           w->columns, w->scores);
        }
    }
    if (p->on_key.weight) {
        int64_t first = lowest + p->on_key.zero, rows = p->on_key.rows;
        int side = far_side(m, p->on_key.zero, rows);
        if (side) {
            memcpy(w->far_rest, w->rest, TILE * sizeof(REAL));
            for (int64_t j = 0; j < k->count; j++)
                w->far_rest[j] += w->key_far[(side > 0) * TILE + j] * (REAL)(p->scale * LOG16E);
            rest = w->far_rest;
            plain = 0;
        } else {
            add_of_keys(w->of_key, m, p->width, w->k, w->k_rows, w->key_table, rows, first,
                        w->columns, w->mirror, w->scores);
        }
    }

    int side = p->on_value.weight ? far_side(m, p->on_value.zero, p->on_value.rows) : 0;
    const int rounded = sums_by_pairs(p) && !p->on_value.weight && p->dropout == 0;
    REAL scale = (REAL)(p->scale * LOG16E);
    if (p->by_count) add_counts(p, &w->counting, m, row, w->scores), scale = 1;
    for (int64_t i = 0; i < m->rows; i++) {
        if (by_matrix(p) && i % 8 == 0) keep_awake();
        vr s[TILE / (sizeof(vf) / sizeof(REAL))];
        const REAL *content = w->scores + i * PITCH, *bias = of_distance + m->rows - 1 - i;
        REAL *weights = w->weights + i * PITCH, *far_sum = w->far_sum + row + i;
        if (rounded) weights = w->words + i * (TILE / 2);
        struct seen seen = seen_of(i + m->band.first, least(i + m->band.last + 1, m->columns));
        bias = network_row(p, &w->network, m, bias, i);
        bias = grid_row(p, &w->grid, q, b, i, bias);
        REAL own[2];
        offset_of(p, b, h, q->start + i, far ? far[i] * scale : 0, own);
        REAL *peak = w->peak + row + i, *sum = w->sum + (row + i) * WIDE;
        REAL *out = w->out + (row + i) * values;
        scores_of_any_row(plain, content, scale, bias, w->beside, rest, own, &seen, s);
        if (rounded && seen.masked)
            soften_row(1, s, seen.first, seen.end, weights, peak, sum, out, values, far_sum);
        else if (rounded)
            soften_row(1, s, 0, TILE / WIDE, weights, peak, sum, out, values, far_sum);
        else if (seen.masked)
            soften_row(0, s, seen.first, seen.end, weights, peak, sum, out, values, far_sum);
        else
            soften_row(0, s, 0, TILE / WIDE, weights, peak, sum, out, values, far_sum);
        if (p->dropout > 0) drop_row(p, b, h, q->start + i, k->start, weights);
        if (side) {
            vr total = {0};
            for (int64_t n = 0; n < TILE; n += WIDE) total += get(weights + n);
            far_sum[(side > 0) * BLOCK_ROWS] += sum_of(total);
        }
    }
    add_to_queries(sums_by_pairs(p), m, p->value_width, rounded ? 0 : w->weights, w->words, w->v,
                   w->v_pairs, w->out + row * values);
    if (p->on_value.weight && !side) {
        const REAL *slice = slice_rows(table_of(&p->on_value, h, p->value_width), p->on_value.rows,
                                       p->value_width, lowest + p->on_value.zero, w->value_slice);
        gather_to_queries(NUMBERS, m, w->weights, slice, values, padded(p->value_width),
                          w->out + row * values, values);
    }
}

#include "attention_query_forward.h"

/* Divides by the sums of the weights and stores what the block gives. */
static void finish_rows(const struct pe_attention *p, struct forward *w, int64_t b, int64_t h,
                        int64_t start, int64_t row, int64_t count) {
    int64_t values = pitch_of(p->value_width), at = (b * p->heads + h) * p->queries + start;
    for (int64_t i = row; i < row + count; i++) {
        REAL *out = w->out + i * values, mass = sum_of(get(w->sum + i * WIDE));
        for (int64_t side = 0; p->on_value.weight && side < 2; side++)
            add_row(out, w->far_sum[side * BLOCK_ROWS + i],
                    table_of(&p->on_value, h, p->value_width) +
                        side * (p->on_value.rows - 1) * p->value_width,
                    p->value_width);
        REAL factor = mass == 0 ? 0 : 1 / mass;
        for (int64_t c = 0; c < values; c += WIDE) put(out + c, get(out + c) * factor);
        ((REAL *)p->peak)[at + i - row] = w->peak[i];
        ((REAL *)p->mass)[at + i - row] = mass;
    }
    const int64_t *stride = p->out_stride;
    int64_t first = b * stride[0] + h * stride[1] + start * stride[2];
    unpack_rows(w->out + row * values, values, 1, count, p->value_width, p->out, p->type, first,
                stride[2]);
    if (p->exact_out)
        unpack_rows(w->out + row * values, values, 1, count, p->value_width, p->exact_out, REAL_TYPE,
                    first, stride[2]);
}

/* A tile of keys and its values. */
static void pack_forward(const struct pe_attention *p, struct forward *w, int64_t b, int64_t h,
                         const struct tile *k, int far_keys) {
    int64_t pitch = pitch_of(p->width), values = pitch_of(p->value_width);
    int64_t own = h / (p->heads / p->key_heads);
    int64_t at = b * p->k_stride[0] + own * p->k_stride[1] + k->start * p->k_stride[2];
    if (!paired(p) || p->on_key.weight)
        pack_rows(p->k, p->type, at, p->k_stride[2], k->count, p->width, w->k, pitch);
    if (paired(p))
        pack_word_columns(p->k, at, p->k_stride[2], k->count, p->width, w->k_words);
    else
        transpose_tile(w->k, pitch, k->count, p->width, w->k_columns);
    if (w->of_key != NUMBERS) pack_words(p->k, at, p->k_stride[2], k->count, p->width, w->k_rows);
    at = b * p->v_stride[0] + own * p->v_stride[1] + k->start * p->v_stride[2];
    w->finite_values = 0;
    if (sums_by_pairs(p)) {
        pack_pairs(p->v, at, p->v_stride[2], k->count, p->value_width, w->v_pairs, values);
        w->finite_values = finite_pairs(w->v_pairs, halves(k->count) * values);
    }
    /* Pairs suffice but for rows that stand alone. */
    if (!w->finite_values || !w->finite_table) {
        pack_rows(p->v, p->type, at, p->v_stride[2], k->count, p->value_width, w->v, values);
        w->finite_values = all_finite(w->v, k->count * values);
    }
    w->offsets = fill_offsets(p, k, b, h, w->beside, w->rest);
    if (far_keys)
        far_products(&p->on_key, h, p->width, w->k, k->count, w->key_far, TILE, w->columns);
}

/* The queries of a block meet all keys that they see, of one zone where there are two. */
static void forward_keys(const struct pe_attention *p, struct forward *w, int64_t b, int64_t h,
                         const struct tile *q, int64_t q_count, const struct tile *keys,
                         int64_t k_count, int64_t rows) {
    int64_t pitch = pitch_of(p->width);
    for (int64_t i = 0; i < q_count; i++) {
        int64_t at = b * p->q_stride[0] + h * p->q_stride[1] + q[i].start * p->q_stride[2];
        if (!paired(p) || p->on_query.weight)
            pack_rows(p->q, p->type, at, p->q_stride[2], q[i].count, p->width,
                      w->q + i * TILE * pitch, pitch);
        if (paired(p))
            pack_words(p->q, at, p->q_stride[2], q[i].count, p->width,
                       w->q_words + i * TILE * halves(p->width));
        if (p->by_count)
            start_counts(p, &w->counting, b, h, q[i].start, i * TILE, q[i].count);
    }
    if (reaches_ends(p, &p->on_query, q, q_count, keys, k_count))
        far_products(&p->on_query, h, p->width, w->q, rows, w->far, BLOCK_ROWS, w->columns);
    int far_keys = reaches_ends(p, &p->on_key, q, q_count, keys, k_count);
    for (int64_t n = 0; n < k_count; n++) {
        /* Counts begin at the last key. */
        const struct tile *k = keys + (p->by_count ? k_count - 1 - n : n);
        int packed = 0;
        for (int64_t i = 0; i < q_count; i++) {
            struct meeting whole;
            if (!meet(p, q + i, k, &whole)) continue;
            if (!packed) pack_forward(p, w, b, h, k, far_keys);
            packed = 1;
            fill_bias(p, &whole, h, w->bias);
            for (int64_t first = 0; first < q[i].count; first += rows_together(p)) {
                const struct tile part = part_of(q + i, first, rows_together(p));
                struct meeting m;
                if (!meet(p, &part, k, &m)) continue;
                if (!w->finite_values || !w->finite_table) m.height = 1;
                forward_meeting(p, w, &m, &part, k, b, h, i * TILE + first,
                                w->bias + whole.rows - first - m.rows);
            }
        }
    }
}

/* What is prepared for one head stays for its other blocks. */
static void start_head(const struct pe_attention *p, struct forward *w, int64_t h) {
    if (w->head == h) return;
    if (!lone(p)) {
        w->of_query = transpose_table(p, &p->on_query, h, p->width, w->query_table);
        w->of_key = transpose_table(p, &p->on_key, h, p->width, w->key_table);
        w->finite_table = finite_table(&p->on_value, h, p->value_width);
    }
    network_head(p, &w->network, h);
    grid_head(p, &w->grid, h);
    w->head = h;
}

/* Some tiles of queries of head h; or of one query heads h .. h + heads - 1. */
static void forward_block(const struct pe_attention *p, struct forward *w, int64_t b, int64_t h,
                          int64_t heads, const struct tile *q, int64_t q_count,
                          const struct tile *k, int64_t k_count) {
    int64_t values = pitch_of(p->value_width);
    int64_t rows = lone(p) ? heads : (q_count - 1) * TILE + q[q_count - 1].count;
    start_head(p, w, h);
    memset(w->out, 0, (size_t)(rows * values) * sizeof(REAL));
    memset(w->sum, 0, (size_t)(rows * WIDE) * sizeof(REAL));
    memset(w->far_sum, 0, 2 * BLOCK_ROWS * sizeof(REAL));
    for (int64_t i = 0; i < rows; i++)
        start_row(p->sink ? p->sink[lone(p) ? h + i : h] : -INFINITY, w->peak + i,
                  w->sum + i * WIDE);
    for (int64_t zone = 0; zone < zones_of(p); zone++) {
        struct pe_attention own = call_of_zone(p, zone);
        if (lone(p))
            query_keys(&own, w, b, h, heads, q, k, k_count);
        else
            forward_keys(&own, w, b, h, q, q_count, k, k_count, rows);
    }
    if (lone(p))
        for (int64_t r = 0; r < heads; r++) finish_rows(p, w, b, h + r, 0, r, 1);
    else
        for (int64_t i = 0; i < q_count; i++)
            finish_rows(p, w, b, h, q[i].start, i * TILE, q[i].count);
}
