/* Products of bfloat16 by pairs, exact, summed in float32: where the processor has them they take
   half the time. A word holds two neighbours of a row. */

#if defined(__AVX512BF16__) && IS_FLOAT
#define HAS_PAIRS 1
#else
#define HAS_PAIRS 0
#endif

INLINE int paired(const struct pe_attention *p) { return HAS_PAIRS && p->type == PE_BFLOAT16; }

/* Words of a row. */
INLINE int64_t halves(int64_t width) { return (width + 1) / 2; }

#if HAS_PAIRS
/* `count` rows as words: (count, halves), or transposed (halves, TILE), its last columns zeros. */
static void pack_words(const void *x, int64_t offset, int64_t stride, int64_t count, int64_t width,
                       int transposed, REAL *to) {
    uint32_t *words = (uint32_t *)to;
    int64_t words_of_row = halves(width), by_row = transposed ? 1 : words_of_row;
    int64_t by_word = transposed ? TILE : 1;
    for (int64_t r = 0; r < count; r++) {
        const uint16_t *row = (const uint16_t *)x + offset + r * stride;
        for (int64_t c = 0; c < width / 2; c++)
            memcpy(words + r * by_row + c * by_word, row + 2 * c, sizeof *words);
        if (width % 2)
            words[r * by_row + width / 2 * by_word] = row[width - 1];
    }
    for (int64_t c = 0; transposed && c < words_of_row; c++)
        for (int64_t r = count; r < TILE; r++) words[c * TILE + r] = 0;
}

INLINE void pair_block(const int rows, const int vectors, int64_t depth, const REAL *a,
                       int64_t a_row, const REAL *b, REAL *c) {
    __m512 sum[STRIP][PANEL];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++) sum[r][n] = _mm512_setzero_ps();
    for (int64_t k = 0; k < depth; k++, a++, b += TILE) {
        __m512i right[PANEL];
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++) right[n] = _mm512_loadu_si512(b + n * WIDE);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            int32_t word;
            memcpy(&word, a + r * a_row, sizeof word);
            __m512i left = _mm512_set1_epi32(word);
#pragma GCC unroll 4
            for (int n = 0; n < vectors; n++)
                sum[r][n] = _mm512_dpbf16_ps(sum[r][n], (__m512bh)left, (__m512bh)right[n]);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++) put(c + r * PITCH + n * WIDE, (vr)sum[r][n]);
}

#define PAIR_BLOCK(rows)                                                                          \
    static void pair_block_##rows(int64_t vectors, int64_t depth, const REAL *a, int64_t a_row,   \
                                  const REAL *b, REAL *c) {                                       \
        if (vectors == 4) pair_block(rows, 4, depth, a, a_row, b, c);                             \
        if (vectors == 3) pair_block(rows, 3, depth, a, a_row, b, c);                             \
        if (vectors == 2) pair_block(rows, 2, depth, a, a_row, b, c);                             \
        if (vectors == 1) pair_block(rows, 1, depth, a, a_row, b, c);                             \
    }
PAIR_BLOCK(1)
PAIR_BLOCK(2)
PAIR_BLOCK(3)
PAIR_BLOCK(4)
PAIR_BLOCK(5)
PAIR_BLOCK(6)

/* The tile C = A B where its band is wanted; A (rows, halves) and B (halves, TILE) of words. */
static void pair_product(const struct meeting *m, int64_t depth, const REAL *a, const REAL *b,
                         REAL *c) {
    static void (*const blocks_of[STRIP])(int64_t, int64_t, const REAL *, int64_t, const REAL *,
                                          REAL *) = {pair_block_1, pair_block_2, pair_block_3,
                                                     pair_block_4, pair_block_5, pair_block_6};
    for (int64_t r = 0; r < m->rows; r += STRIP) {
        int64_t count = least(STRIP, m->rows - r), from, to;
        spanned(m->band, r, count, TILE, &from, &to);
        if (to <= from) continue;
        from = from / WIDE * WIDE;
        blocks_of[count - 1]((to - from + WIDE - 1) / WIDE, depth, a + r * depth, depth, b + from,
                             c + r * PITCH + from);
    }
}
#else
static void pack_words(const void *x, int64_t offset, int64_t stride, int64_t count, int64_t width,
                       int transposed, REAL *to) {
    (void)x, (void)offset, (void)stride, (void)count, (void)width, (void)transposed, (void)to;
}

static void pair_product(const struct meeting *m, int64_t depth, const REAL *a, const REAL *b,
                         REAL *c) {
    (void)m, (void)depth, (void)a, (void)b, (void)c;
}
#endif
