/* The online softmax of a row, that meets some keys at a time. */

/* Weights relative to the greatest score so far, of the vectors `first` to `end`; the others are
   zeros. They are `rounded` to words where nothing else is made of them. */
INLINE void soften_row(const int rounded, const vr *s, int64_t first, int64_t end, REAL *weights,
                       REAL *peak, REAL *sum, REAL *out, int64_t width, REAL *far_sum) {
    const int64_t vectors = TILE / WIDE;
    vr top = s[0];
#pragma GCC unroll 16
    for (int64_t n = 1; n < vectors; n++) top = greater(top, s[n]);
    REAL now = greatest_of(top), before = *peak;
    if (now > before) {
        *peak = now;
        REAL factor = EXP2(4 * (before - now));
        put(sum, get(sum) * factor);
        for (int64_t c = 0; c < width; c += WIDE) put(out + c, get(out + c) * factor);
        far_sum[0] *= factor;
        far_sum[BLOCK_ROWS] *= factor;
    } else {
        now = before == -INFINITY ? 0 : before;
    }
    vr total = {0}, e[TILE / (sizeof(vf) / sizeof(REAL))];
#pragma GCC unroll 16
    for (int64_t n = 0; n < vectors; n++) {
        e[n] = (vr){0};
        if (n >= first && n < end)
            e[n] = rounded ? short_exp16_of(s[n] - now) : exp16_of(s[n] - now);
        total += e[n];
        if (!rounded) put(weights + n * WIDE, e[n]);
    }
    for (int64_t n = 0; rounded && n < vectors; n += 2)
        put(weights + n / 2 * WIDE, words_of(e[n], e[n + 1]));
    put(sum, get(sum) + total);
}

/* A row that has met no key: its peak is the sink, which weighs 1 against itself. */
INLINE void start_row(double sink, REAL *peak, REAL *sum) {
    *peak = (REAL)(sink * LOG16E);
    sum[0] = *peak == -INFINITY ? 0 : 1;
}
