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
    w->scores = take(memory, TOGETHER * TILE);
    w->weights = take(memory, TOGETHER * TILE);
    w->mask = take(memory, TOGETHER * TILE);
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

/* Query heads row .. row + queries - 1 meet a tile of keys, of which hidden[q] are hidden from
   head row + q. Their masks are mask_step apart, which is 0 where they read the same. */
static void asked_meeting(const struct pe_query *p, struct asked *w, int64_t row, int64_t queries,
                          const struct rows *keys, const struct rows *values, int64_t count,
                          const int64_t *hidden, int64_t mask_step) {
    int64_t width = pitch_of(p->width), pitch = pitch_of(p->value_width), unequal = 0;
    REAL scale = (REAL)(p->scale * LOG16E), *out = w->out + row * pitch;
    dots(queries, keys, 0, count, w->q + row * width, width, 0, w->scores);
    for (int64_t q = 0; q < queries; q++) {
        vr s[TILE / (sizeof(vf) / sizeof(REAL))];
        const REAL *scores = w->scores + q * TILE, *masks = w->mask + q * mask_step;
#pragma GCC unroll 16
        for (int64_t n = 0; n < TILE / WIDE; n++) {
            vr mask = get(masks + n * WIDE);
            vw shown = (vw)(mask != -INFINITY);
            s[n] = get(scores + n * WIDE) * scale + mask;
            if (hidden[q]) s[n] = hidden_but(shown, s[n]);
        }
        soften_row(0, s, 0, TILE / WIDE, w->weights + q * TILE, w->peak + row + q,
                   w->sum + (row + q) * WIDE, out + q * pitch, pitch, w->far_sum);
        unequal |= hidden[q] - (TILE - count);
    }
    /* What is hidden is not read, for it may be NaN. */
    if (!unequal) blend(queries, values, 0, count, w->weights, out, pitch);
    for (int64_t q = 0; unequal && q < queries; q++)
        for (int64_t j = 0; j < count; j++) {
            const REAL *mask = w->mask + q * mask_step;
            int64_t from = j;
            while (j < count && mask[j] != -INFINITY) j++;
            if (j > from) blend(1, values, from, j, w->weights + q * TILE, out + q * pitch, 0);
        }
}

/* Query heads first .. first + heads - 1 of one row of the batch, which share a key head. */
static void asked_task(const struct pe_query *p, struct asked *w, int64_t b, int64_t first,
                       int64_t heads) {
    int64_t own = first / (p->heads / p->key_heads), values = pitch_of(p->value_width);
    int64_t mask_step = p->mask && p->mask_stride[1] ? TILE : 0;
    /* Rows that are packed are wide already. */
    int64_t read = p->width % WIDE || p->value_width % WIDE ? REAL_TYPE : p->type;
    pack_rows(p->q, p->type, b * p->q_stride[0] + first * p->q_stride[1], p->q_stride[1], heads,
              p->width, w->q, pitch_of(p->width));
    memset(w->out, 0, (size_t)(heads * values) * sizeof(REAL));
    memset(w->sum, 0, (size_t)(heads * WIDE) * sizeof(REAL));
    memset(w->far_sum, 0, 2 * BLOCK_ROWS * sizeof(REAL));
    for (int64_t r = 0; r < heads; r++)
        start_row(p->sink ? p->sink[first + r] : -INFINITY, w->peak + r, w->sum + r * WIDE);
    for (int64_t start = 0; start < p->keys; start += TILE) {
        int64_t count = least(TILE, p->keys - start), hidden[TOGETHER], queries;
        int packed = 0;
        struct rows keys = {0}, rows = {0};
        for (int64_t r = 0; r < heads; r += queries) {
            int64_t all_hidden = 1;
            queries = together(read, heads - r);
            for (int64_t q = 0; q < queries; q++) {
                const REAL *mask = p->mask;
                if (mask)
                    mask += b * p->mask_stride[0] + (first + r + q) * p->mask_stride[1] + start;
                if (mask_step || r + q == 0)
                    hidden[q] = tile_of_mask(mask, count, w->mask + q * mask_step);
                else
                    hidden[q] = hidden[0];
                all_hidden &= hidden[q] == TILE;
            }
            if (all_hidden) continue;
            if (!packed)
                keys = rows_of(p->k, p->type,
                               b * p->k_stride[0] + own * p->k_stride[1] + start * p->k_stride[2],
                               p->k_stride[2], count, p->width, w->k),
                rows = rows_of(p->v, p->type,
                               b * p->v_stride[0] + own * p->v_stride[1] + start * p->v_stride[2],
                               p->v_stride[2], count, p->value_width, w->v);
            packed = 1;
            asked_meeting(p, w, r, queries, &keys, &rows, count, hidden, mask_step);
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
