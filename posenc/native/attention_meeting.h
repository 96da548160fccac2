/* Products of two tiles that meet, of numbers or of words: scores, and sums of weighted rows. */

/* What the rows of two tiles make with each other: c[i, j] = a[i] . b[j], b being transposed. */
static void multiply_rows(const struct pe_attention *p, const struct meeting *m, int64_t width,
                          const REAL *a, const REAL *a_words, const REAL *b, const REAL *b_words,
                          REAL *c) {
    if (paired(p))
        product(WORDS, m->rows, TILE, halves(width), m->band, a_words, halves(width), b_words, TILE,
                c, PITCH);
    else
        product(NUMBERS, m->rows, TILE, width, m->band, a, pitch_of(width), b, TILE, c, PITCH);
}

INLINE int has_vectors(const struct pe_attention *p) {
    return p->on_query.weight || p->on_key.weight || p->on_value.weight;
}

/* Queries that meet a tile of keys together. The matrix unit is faster than the cache behind the
   first, which holds what a row of squares needs beside a tile of keys and its values; but a whole tile
   shares what it reads of tables of vectors. */
INLINE int64_t rows_together(const struct pe_attention *p) {
    return by_matrix(p) && !has_vectors(p) ? SIDE : TILE;
}

/* Whether anything but q, k and v makes scores or outputs. */
INLINE int has_terms(const struct pe_attention *p) {
    return p->table.weight || p->past || p->q_offset || p->k_offset || has_vectors(p) ||
           p->by_count || p->network.by_distance.weight || p->grid.table.weight || p->sink;
}

/* Whether sums of weighted rows go by pairs. The output of a call with terms has exact weights where
   it may get a gradient: that of a weight is taken against that of its row's output, whose error
   all pairs of the row would share, and add up in what tables and gates learn. */
INLINE int sums_by_pairs(const struct pe_attention *p) {
    return paired(p) && (p->backward || !p->learns || !has_terms(p));
}

/* Adds x times the first or the second half of a word. */
static void add_half(const REAL *word, int second, int64_t columns, const REAL *x, REAL *sum) {
    uint16_t half[2];
    memcpy(half, word, sizeof half);
    REAL weight = (REAL)from_bf16(half[second]);
    strip(NUMBERS, 1, columns, 1, &weight, 1, 1, x, columns, sum, columns, 1);
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
            add_half(a + from / 2 * a_column, 1, columns, x + from * pitch, sum);
            from++;
        }
        if (from + 1 < to)
            strip(WORDS, 1, columns, (to - from) / 2, a + from / 2 * a_column, 0, a_column,
                  x_pairs + from / 2 * pitch, pitch, sum, pitch, 1);
        if (from < to && to % 2)
            add_half(a + to / 2 * a_column, 0, columns, x + (to - 1) * pitch, sum);
    }
}

/* sum += A x, A being words of weights, zero outside the band. */
static void add_by_pairs(const struct meeting *m, int64_t rows, int64_t columns, int64_t depth,
                         struct band band, const REAL *a, int64_t a_row, int64_t a_column,
                         const REAL *x, const REAL *x_pairs, int64_t pitch, REAL *sum) {
    if (m->height == 1)
        add_alone(rows, columns, depth, band, a, a_row, a_column, x, x_pairs, pitch, sum);
    else if (HAS_MATRIX)
        words_add(rows, columns, depth, band, a, a_row, x_pairs, pitch, sum, pitch);
    else
        product_add(WORDS, STRIP, rows, columns, depth, band, a, a_row, a_column, x_pairs, pitch,
                    sum, pitch);
}

/* sum[i] += sum over j of weights[i, j] x[j]; x_pairs are words of its rows. `words` is scratch, or
   holds those of the weights, which then are NULL. */
static void add_to_queries(int by_pairs, const struct meeting *m, int64_t width,
                           const REAL *weights, REAL *words, const REAL *x, const REAL *x_pairs,
                           REAL *sum) {
    int64_t pitch = pitch_of(width), columns = padded(width);
    if (by_pairs) {
        if (weights) pair_columns(weights, m->rows, words);
        add_by_pairs(m, m->rows, columns, m->columns, m->band, words, TILE / 2, 1, x, x_pairs,
                     pitch, sum);
    } else {
        product_add(NUMBERS, m->height, m->rows, columns, m->columns, m->band, weights, PITCH, 1,
                    x, pitch, sum, pitch);
    }
}

/* sum[j] += sum over i of weights[i, j] x[i] */
static void add_to_keys(int by_pairs, const struct meeting *m, int64_t width, const REAL *weights,
                        REAL *words, const REAL *x, const REAL *x_pairs, REAL *sum) {
    const struct band band = transposed(m->band);
    int64_t pitch = pitch_of(width), columns = padded(width);
    if (by_pairs && HAS_MATRIX) {
        pair_rows_of_columns(weights, m->rows, words);
        add_by_pairs(m, m->columns, columns, m->rows, band, words, TILE / 2, 1, x, x_pairs, pitch,
                     sum);
    } else if (by_pairs) {
        pair_rows(weights, PITCH, m->rows, TILE, words, TILE);
        add_by_pairs(m, m->columns, columns, m->rows, band, words, 1, TILE, x, x_pairs, pitch,
                     sum);
    } else {
        product_add(NUMBERS, m->height, m->columns, columns, m->rows, band, weights, 1, PITCH, x,
                    pitch, sum, pitch);
    }
}
