/* Words of two bfloat16, for products by pairs. Those of q, k, v and the gradient of the output are
   exact; weights, and the gradients of scores, are rounded, as matrix units of GPUs have them. */

INLINE int paired(const struct pe_attention *p) { return HAS_PAIRS && p->type == PE_BFLOAT16; }

/* Words of a row, or of a column. */
INLINE int64_t halves(int64_t width) { return (width + 1) / 2; }

/* `count` rows as words of neighbours in them: (count, halves), or transposed (halves, TILE), its
   last columns zeros. */
static void pack_words(const void *x, int64_t offset, int64_t stride, int64_t count, int64_t width,
                       int transposed, REAL *to) {
    uint32_t *words = (uint32_t *)to;
    int64_t words_of_row = halves(width), by_row = transposed ? 1 : words_of_row;
    int64_t by_word = transposed ? TILE : 1;
    for (int64_t r = 0; r < count; r++) {
        const uint16_t *row = (const uint16_t *)x + offset + r * stride;
        if (!transposed)
            memcpy(words + r * by_row, row, (size_t)(width / 2) * sizeof *words);
        else
            for (int64_t c = 0; c < width / 2; c++)
                memcpy(words + r + c * TILE, row + 2 * c, sizeof *words);
        if (width % 2)
            words[r * by_row + width / 2 * by_word] = row[width - 1];
    }
    for (int64_t c = 0; transposed && c < words_of_row; c++)
        for (int64_t r = count; r < TILE; r++) words[c * TILE + r] = 0;
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

/* Zeros in place of row r, in words of neighbouring rows. */
static void clear_half(REAL *pairs, int64_t r, int64_t pitch) {
    uint32_t *words = (uint32_t *)pairs + r / 2 * pitch;
    for (int64_t c = 0; c < pitch; c++) words[c] &= r % 2 ? 0xffffu : 0xffff0000u;
}

/* Two vectors, rounded: the words (first[i], second[i]). */
INLINE vr join_pairs(vr first, vr second) {
#if HAS_PAIRS
    __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)first));
    __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)second));
    return (vr)_mm512_or_si512(low, _mm512_slli_epi32(high, 16));
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

/* Words of neighbouring columns, (count, TILE / 2) out of a tile of weights. */
static void pair_columns(const REAL *from, int64_t count, REAL *to) {
#if HAS_PAIRS
    for (int64_t r = 0; r < count; r++, from += PITCH)
        for (int64_t c = 0; c < TILE; c += 2 * WIDE, to += WIDE) {
            vr first = get(from + c), second = get(from + c + WIDE);
            put(to, (vr)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first));
        }
#else
    (void)from, (void)count, (void)to;
#endif
}

/* What the rows of two tiles make with each other: c[i, j] = a[i] . b[j], b being transposed. */
static void multiply_rows(const struct pe_attention *p, const struct meeting *m, int64_t width,
                          const REAL *a, const REAL *a_words, const REAL *b, const REAL *b_words,
                          REAL *c) {
    if (paired(p))
        product(1, m->rows, TILE, halves(width), m->band, a_words, halves(width), b_words, TILE, c,
                PITCH);
    else
        product(0, m->rows, TILE, width, m->band, a, pitch_of(width), b, TILE, c, PITCH);
}

INLINE int has_vectors(const struct pe_attention *p) {
    return p->on_query.weight || p->on_key.weight || p->on_value.weight;
}

/* Whether anything but q, k and v makes scores or outputs. */
INLINE int has_terms(const struct pe_attention *p) {
    return p->table.weight || p->past || p->q_offset || p->k_offset || has_vectors(p) ||
           p->by_count || p->network.by_distance.weight || p->grid.table.weight || p->sink;
}

/* Whether sums of weighted rows go by pairs. The output of a call with terms has exact weights: the
   gradient of a weight is taken against that of its row's output, whose error all pairs of the row
   would share, and add up in what tables and gates learn. */
INLINE int sums_by_pairs(const struct pe_attention *p) {
    return paired(p) && (p->backward || !has_terms(p));
}

/* Adds x times one half of a word. */
static void add_half(REAL word, int second, int64_t columns, const REAL *x, REAL *sum) {
    uint32_t halves_of_word;
    memcpy(&halves_of_word, &word, sizeof halves_of_word);
    REAL weight = (REAL)from_bf16((uint16_t)(second ? halves_of_word >> 16 : halves_of_word));
    strip(0, 1, columns, 1, &weight, 1, 1, x, columns, sum, columns, 1);
}

/* sum[r] += sum over the band of A x, where rows stand alone (see `meeting`): a neighbour that is
   not seen is left out of its word. The sums are the same. */
static void add_alone(int64_t rows, int64_t columns, int64_t depth, struct band band, const REAL *a,
                      int64_t a_row, int64_t a_column, const REAL *x, const REAL *x_pairs,
                      int64_t pitch, REAL *sum) {
    for (int64_t r = 0; r < rows; r++, a += a_row, sum += pitch) {
        int64_t from, to;
        spanned(band, r, 1, depth, &from, &to);
        if (from < to && from % 2) {
            add_half(a[from / 2 * a_column], 1, columns, x + from * pitch, sum);
            from++;
        }
        if (from + 1 < to)
            strip(1, 1, columns, (to - from) / 2, a + from / 2 * a_column, 0, a_column,
                  x_pairs + from / 2 * pitch, pitch, sum, pitch, 1);
        if (from < to && to % 2)
            add_half(a[to / 2 * a_column], 0, columns, x + (to - 1) * pitch, sum);
    }
}

/* sum += A x, A being words of weights, zero outside the band. */
static void add_by_pairs(const struct meeting *m, int64_t rows, int64_t columns, int64_t depth,
                         struct band band, const REAL *a, int64_t a_row, int64_t a_column,
                         const REAL *x, const REAL *x_pairs, int64_t pitch, REAL *sum) {
    if (m->height == 1)
        add_alone(rows, columns, depth, band, a, a_row, a_column, x, x_pairs, pitch, sum);
    else
        product_add(1, STRIP, rows, columns, depth, band, a, a_row, a_column, x_pairs, pitch, sum,
                    pitch);
}

/* sum[i] += sum over j of weights[i, j] x[j]; x_pairs are words of its rows, `words` is scratch. */
static void add_to_queries(int by_pairs, const struct meeting *m, int64_t width,
                           const REAL *weights, REAL *words, const REAL *x, const REAL *x_pairs,
                           REAL *sum) {
    int64_t pitch = pitch_of(width), columns = padded(width);
    if (by_pairs) {
        pair_columns(weights, m->rows, words);
        add_by_pairs(m, m->rows, columns, m->columns, m->band, words, TILE / 2, 1, x, x_pairs,
                     pitch, sum);
    } else {
        product_add(0, m->height, m->rows, columns, m->columns, m->band, weights, PITCH, 1, x,
                    pitch, sum, pitch);
    }
}

/* sum[j] += sum over i of weights[i, j] x[i] */
static void add_to_keys(int by_pairs, const struct meeting *m, int64_t width, const REAL *weights,
                        REAL *words, const REAL *x, const REAL *x_pairs, REAL *sum) {
    const struct band band = transposed(m->band);
    int64_t pitch = pitch_of(width), columns = padded(width);
    if (by_pairs) {
        pair_rows(weights, PITCH, m->rows, TILE, words, TILE);
        add_by_pairs(m, m->columns, columns, m->rows, band, words, 1, TILE, x, x_pairs, pitch,
                     sum);
    } else {
        product_add(0, m->height, m->columns, columns, m->rows, band, weights, 1, PITCH, x, pitch,
                    sum, pitch);
    }
}
