/* Words of two bfloat16, for products by pairs. Those of q, k, v and the gradient of the output are
   exact; weights, and the gradients of scores, are rounded, as matrix units of GPUs have them. */

INLINE int paired(const struct pe_attention *p) { return HAS_PAIRS && p->type == PE_BFLOAT16; }

/* Whether products of this call go to the matrix unit. */
INLINE int by_matrix(const struct pe_attention *p) { return HAS_MATRIX && paired(p); }

/* Words of a row, or of a column. */
INLINE int64_t halves(int64_t width) { return (width + 1) / 2; }

/* `count` rows as words of neighbours in them, (count, halves). */
static void pack_words(const void *x, int64_t offset, int64_t stride, int64_t count, int64_t width,
                       REAL *to) {
    uint32_t *words = (uint32_t *)to;
    for (int64_t r = 0; r < count; r++, words += halves(width)) {
        const uint16_t *row = (const uint16_t *)x + offset + r * stride;
        memcpy(words, row, (size_t)(width / 2) * sizeof *words);
        if (width % 2) words[width / 2] = row[width - 1];
    }
}

/* The same transposed, (halves, TILE), the last columns zeros. */
static void pack_word_columns(const void *x, int64_t offset, int64_t stride, int64_t count,
                              int64_t width, REAL *to) {
    enum { BYTES = SQUARE * sizeof(REAL) };
    REAL rows[SQUARE * SQUARE];
    for (int64_t c = 0; c < halves(width); c += SQUARE) {
        int64_t words = least(SQUARE, halves(width) - c);
        int64_t bytes = least(BYTES, (width - 2 * c) * (int64_t)sizeof(uint16_t));
        for (int64_t r = 0; r < TILE; r += SQUARE) {
            int64_t present = most(0, least(SQUARE, count - r));
            const uint16_t *from = (const uint16_t *)x + offset + r * stride + 2 * c;
            if (present < SQUARE || bytes < BYTES) memset(rows, 0, sizeof rows);
            for (int64_t i = 0; i < present; i++, from += stride) {
                if (bytes == BYTES)
                    memcpy(rows + i * SQUARE, from, BYTES);
                else
                    memcpy(rows + i * SQUARE, from, (size_t)bytes);
            }
            transpose(0, rows, SQUARE, SQUARE, words, to + c * TILE + r, TILE);
        }
    }
}

/* `count` rows as words of neighbouring rows, (halves of count, pitch), padded with zeros. */
static void pack_pairs(const void *x, int64_t offset, int64_t stride, int64_t count, int64_t width,
                       REAL *to, int64_t pitch) {
    uint32_t *words = (uint32_t *)to;
    for (int64_t r = 0; r < count; r += 2, words += pitch) {
        const uint16_t *first = (const uint16_t *)x + offset + r * stride;
        int64_t c = 0;
        if (r + 1 < count)
            for (const uint16_t *second = first + stride; c < width; c++)
                words[c] = first[c] | (uint32_t)second[c] << 16;
        for (; c < width; c++) words[c] = first[c];
        for (; c < pitch; c++) words[c] = 0;
    }
}

/* Whether words hold no NaN and no infinity: in those all bits of an exponent are set. */
static int finite_pairs(const REAL *pairs, int64_t count) {
    const uint32_t *words = (const uint32_t *)pairs, high = 0x7f800000u, low = 0x7f80u;
    uint32_t other = 0;
    for (int64_t i = 0; i < count; i++)
        other |= (uint32_t)((words[i] & high) == high) | (uint32_t)((words[i] & low) == low);
    return !other;
}

/* Zeros in place of row r, in words of neighbouring rows. */
static void clear_half(REAL *pairs, int64_t r, int64_t pitch) {
    uint32_t *words = (uint32_t *)pairs + r / 2 * pitch;
    for (int64_t c = 0; c < pitch; c++) words[c] &= r % 2 ? 0xffffu : 0xffff0000u;
}

/* The upper 16 bits of each number of float32, which a word holds as they are. */
INLINE vr upper_of(vr x) { return (vr)((vw)x & ~(WHOLE)0xffff); }

/* Two vectors, rounded: words of neighbours in them. */
INLINE vr words_of(vr first, vr second) {
#if HAS_PAIRS
    return (vr)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
#else
    return (void)second, first;
#endif
}

/* Two vectors, rounded: the words (first[i], second[i]). */
INLINE vr join_pairs(vr first, vr second) {
#if HAS_PAIRS
    static const uint16_t alternate[32] = {0,  16, 1, 17, 2,  18, 3,  19, 4,  20, 5,
                                           21, 6,  22, 7, 23, 8,  24, 9,  25, 10, 26,
                                           11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i both = (__m512i)words_of(first, second);
    return (vr)_mm512_permutexvar_epi16(_mm512_loadu_si512(alternate), both);
#else
    return (void)second, first;
#endif
}

/* Words of neighbouring rows, (halves of count, columns) out of (count, columns). */
static void pair_rows(const REAL *from, int64_t from_pitch, int64_t count, int64_t columns, REAL *to,
                      int64_t to_pitch) {
    for (int64_t r = 0; r < count; r += 2, from += 2 * from_pitch, to += to_pitch)
        for (int64_t c = 0; c < columns; c += WIDE) {
            vr below = r + 1 < count ? get(from + from_pitch + c) : (vr){0};
            put(to + c, join_pairs(get(from + c), below));
        }
}

/* Whether words hold these numbers of float32 as they are. */
static int fit_words(const REAL *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        if (bits & 0xffffu) return 0;
    }
    return 1;
}

/* Words of neighbouring columns, (count, TILE / 2) out of a tile of weights. */
static void pair_columns(const REAL *from, int64_t count, REAL *to) {
    for (int64_t r = 0; r < count; r++, from += PITCH)
        for (int64_t c = 0; c < TILE; c += 2 * WIDE, to += WIDE)
            put(to, words_of(get(from + c), get(from + c + WIDE)));
}

/* Words of neighbouring rows of a tile of weights, one row of words for each of its columns:
   (TILE, TILE / 2). */
static void pair_rows_of_columns(const REAL *from, int64_t count, REAL *to) {
    REAL words[SIDE * SIDE];
    for (int64_t r = 0; r < count; r += 2 * SIDE)
        for (int64_t c = 0; c < TILE; c += SIDE) {
            pair_rows(from + r * PITCH + c, PITCH, least(2 * SIDE, count - r), SIDE, words, SIDE);
            transpose(0, words, SIDE, SIDE, SIDE, to + c * (TILE / 2) + r / 2, TILE / 2);
        }
}

/* Words of each number of a tile and of that `step` on, with zeros around them as the tile has. */
static void pair_tile(const REAL *tile, int64_t rows, int64_t step, REAL *words) {
    for (int64_t r = -1; r <= rows; r++)
        for (int64_t c = -WIDE; c < TILE; c += WIDE) {
            const REAL *x = tile + r * PITCH + c;
            put(words + r * PITCH + c, join_pairs(get(x), get(x + step)));
        }
    if (rows < TILE)
        memset(words + (rows + 1) * PITCH - EDGE, 0, (MARGIN - 1) * PITCH * sizeof(REAL));
}
