/* One query with a ready mask: what a step of decoding asks, by a call that is quick to make. */

/* What one worker keeps, of the query heads that share a key head. */
struct asked {
    REAL *q, *k, *v, *out, *sum, *peak, *scores, *weights, *mask, *far_sum;
};

static void asked_scratch(const struct pe_query *p, struct scratch *memory, struct asked *w) {
    int64_t heads = p->heads / p->key_heads, values = pitch_of(p->value_width);
    w->q = take(memory, heads * pitch_of(p->width));
    w->k = take(memory, TILE * pitch_of(p->width));
    w->v = take(memory, TILE * values);
    w->out = take(memory, heads * values);
    w->sum = take(memory, heads * WIDE);
    w->peak = take(memory, heads);
    w->scores = take(memory, TILE);
    w->weights = take(memory, TILE);
    w->mask = take(memory, TILE);
    w->far_sum = take(memory, 2 * BLOCK_ROWS);
}

/* The mask of a tile in units of log 16, -inf beyond its end too; how many keys it hides. */
static int64_t tile_of_mask(const REAL *mask, int64_t count, REAL *to) {
    vr hidden = {0};
    for (int64_t j = 0; j < TILE; j += WIDE) {
        vr x = all(-INFINITY);
        if (j + WIDE <= count)
            x = mask ? get(mask + j) : all(0);
        else if (j < count)
            for (int64_t n = 0; n < count - j; n++) x[n] = mask ? mask[j + n] : 0;
        hidden += (vr)((vw)all(1) & (vw)(x == -INFINITY));
        put(to + j, x * (REAL)LOG16E);
    }
    return (int64_t)sum_of(hidden);
}

/* A query head meets a tile of keys. */
static void asked_meeting(const struct pe_query *p, struct asked *w, int64_t row,
                          const struct rows *keys, const struct rows *values, int64_t count,
                          int64_t hidden) {
    int64_t pitch = pitch_of(p->value_width);
    vr s[TILE / (sizeof(vf) / sizeof(REAL))];
    REAL scale = (REAL)(p->scale * LOG16E), *out = w->out + row * pitch;
    dots(keys, 0, count, w->q + row * pitch_of(p->width), 0, w->scores);
#pragma GCC unroll 16
    for (int64_t n = 0; n < TILE / WIDE; n++) {
        vr mask = get(w->mask + n * WIDE);
        vw shown = (vw)(mask != -INFINITY);
        s[n] = get(w->scores + n * WIDE) * scale + mask;
        if (hidden) s[n] = (vr)(((vw)s[n] & shown) | ((vw)all(-INFINITY) & ~shown));
    }
    soften_row(s, w->weights, w->peak + row, w->sum + row * WIDE, out, pitch, w->far_sum);
    /* What is hidden is not read, for it may be NaN. */
    if (!hidden) blend(values, 0, count, w->weights, out);
    for (int64_t j = 0; hidden && j < count; j++) {
        int64_t from = j;
        while (j < count && w->mask[j] != -INFINITY) j++;
        if (j > from) blend(values, from, j, w->weights, out);
    }
}

/* Query heads first .. first + heads - 1 of one row of the batch, which share a key head. */
static void asked_task(const struct pe_query *p, struct asked *w, int64_t b, int64_t first,
                       int64_t heads) {
    int64_t own = first / (p->heads / p->key_heads), values = pitch_of(p->value_width);
    pack_rows(p->q, p->type, b * p->q_stride[0] + first * p->q_stride[1], p->q_stride[1], heads,
              p->width, w->q, pitch_of(p->width));
    memset(w->out, 0, (size_t)(heads * values) * sizeof(REAL));
    memset(w->sum, 0, (size_t)(heads * WIDE) * sizeof(REAL));
    memset(w->far_sum, 0, 2 * BLOCK_ROWS * sizeof(REAL));
    for (int64_t r = 0; r < heads; r++)
        start_row(p->sink ? p->sink[first + r] : -INFINITY, w->peak + r, w->sum + r * WIDE);
    for (int64_t start = 0; start < p->keys; start += TILE) {
        int64_t count = least(TILE, p->keys - start), hidden = 0;
        int packed = 0;
        struct rows keys = {0}, rows = {0};
        for (int64_t r = 0; r < heads; r++) {
            if (!r || p->mask) {
                const REAL *mask = p->mask;
                if (mask) mask += b * p->mask_stride[0] + (first + r) * p->mask_stride[1] + start;
                hidden = tile_of_mask(mask, count, w->mask);
            }
            if (hidden == TILE) continue;
            if (!packed)
                keys = rows_of(p->k, p->type,
                               b * p->k_stride[0] + own * p->k_stride[1] + start * p->k_stride[2],
                               p->k_stride[2], count, p->width, w->k),
                rows = rows_of(p->v, p->type,
                               b * p->v_stride[0] + own * p->v_stride[1] + start * p->v_stride[2],
                               p->v_stride[2], count, p->value_width, w->v);
            packed = 1;
            asked_meeting(p, w, r, &keys, &rows, count, hidden);
        }
    }
    for (int64_t r = 0; r < heads; r++) {
        REAL *out = w->out + r * values, mass = sum_of(get(w->sum + r * WIDE));
        unpack_rows(out, values, mass == 0 ? 0 : 1 / mass, 1, p->value_width, p->out, p->type,
                    (b * p->heads + first + r) * p->value_width, 0);
    }
}

static int64_t asked_bytes(const struct pe_query *p) {
    struct scratch count = {0};
    struct asked w;
    asked_scratch(p, &count, &w);
    return count.used;
}

static void masked_query(const struct pe_query *p, char *memory) {
    int64_t shared = p->heads / p->key_heads, each = asked_bytes(p);
    /* Query heads that share keys read them once, unless workers would be idle. */
    int64_t heads = p->batch * p->key_heads < p->workers ? 1 : shared;
    int64_t tasks = p->batch * p->heads / heads;
#pragma omp parallel for num_threads((int)p->workers) schedule(static, 1) if (p->workers > 1)
    for (int64_t worker = 0; worker < p->workers; worker++) {
        struct scratch own = {memory, worker * each};
        struct asked w;
        asked_scratch(p, &own, &w);
        for (int64_t task = worker; task < tasks; task += p->workers) {
            int64_t first = task * heads;
            asked_task(p, &w, first / p->heads, first % p->heads, heads);
        }
    }
    ASAN_UNPOISON_MEMORY_REGION(memory, p->workers * each);
}
