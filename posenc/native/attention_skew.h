/* Tables of vectors on a tile: row i and column j read the table's row of their distance.

   A slice holds the REACH rows of a table from the lowest distance of a meeting on, so that pair
   (i, j) reads row t = j - i + rows - 1 of it. A strip of rows then meets a few more rows of the
   slice than it has columns, as a plain product; that its rows are shifted against each other
   costs nothing, for the steps between rows of A and of C may be longer by one.

   Where products go by words (see attention_pairs.h), the depth is half of what it was, and the matrix
   unit makes them (attention_skew_squares.h). What a table learns never does: terms of its sums cancel,
   and errors of rounding would add up. */

/* How many numbers of the depth a factor holds, and how many factors hold so many of them. */
INLINE int64_t held_by(enum factors kind) { return kind == NUMBERS ? 1 : 2; }
INLINE int64_t factors_of(enum factors kind, int64_t depth) {
    return (depth + held_by(kind) - 1) / held_by(kind);
}

/* A head's table transposed, (width, pitch_of(rows)); as words, of half as many rows, where they hold
   it exactly: scores are of the numbers that were given. The matrix unit has it by squares, and in
   three words where one does not do. */
static enum factors transpose_table(const struct pe_attention *p, const struct pe_table *x,
                                    int64_t head, int64_t width, REAL *to) {
    if (!x->weight) return NUMBERS;
    int64_t pitch = pitch_of(x->rows);
    const int exact = paired(p) && fit_words(table_of(x, head, width), x->rows * width);
    if (by_matrix(p) && (exact || finite_table(x, head, width))) {
        const enum factors kind = exact ? WORDS : THREE_WORDS;
        pack_table(kind, table_of(x, head, width), x->rows, width, to);
        return kind;
    }
    transpose(0, table_of(x, head, width), width, x->rows, width, to, pitch);
    if (!exact) return NUMBERS;
    /* In place, for a row of words lies where no later row of numbers does. */
    pair_rows(to, pitch, width, padded(x->rows), to, pitch);
    return WORDS;
}

/* Whether a slice from row `first` on lies within its table, where it may be read. */
INLINE int within(int64_t first, int64_t rows) { return first >= 0 && first + REACH <= rows; }

/* A slice of a transposed table (depth, pitch_of(rows)) from its row `first` on, as columns, and the
   step between them: where it lies, or (depth, REACH) in the buffer. */
static const REAL *slice_columns(const REAL *table, int64_t rows, int64_t depth, int64_t first,
                                 REAL *buffer, int64_t *step) {
    *step = within(first, rows) ? pitch_of(rows) : REACH;
    if (within(first, rows)) return table + first;
    int64_t low = least(most(-first, 0), REACH), high = most(least(rows - first, REACH), low);
    REAL *to = buffer;
    for (int64_t c = 0; c < depth; c++, table += pitch_of(rows), to += REACH) {
        for (int64_t t = 0; t < low; t++) to[t] = table[0];
        memcpy(to + low, table + first + low, (size_t)(high - low) * sizeof(REAL));
        for (int64_t t = high; t < REACH; t++) to[t] = table[rows - 1];
    }
    return buffer;
}

/* `count` rows of a table from `first` on, (count, pitch_of(width)), their columns padded with zeros. */
static void copy_slice(const REAL *table, int64_t rows, int64_t width, int64_t first,
                       int64_t count, REAL *to) {
    int64_t pitch = pitch_of(width);
    for (int64_t t = 0; t < count; t++, to += pitch)
        pad_row(table + clamped(first + t, rows) * width, width, to, pitch);
}

/* A slice (REACH, pitch_of(width)): where it lies, or in the buffer. */
static const REAL *slice_rows(const REAL *table, int64_t rows, int64_t width, int64_t first,
                              REAL *buffer) {
    if (pitch_of(width) == width && within(first, rows)) return table + first * width;
    copy_slice(table, rows, width, first, REACH, buffer);
    return buffer;
}

/* S[i, j] += x[i] . slice[t], of a transposed table from its row `first` on; x in both kinds. */
static void add_of_queries(enum factors kind, const struct meeting *m, int64_t width,
                           const REAL *x, const REAL *x_words, const REAL *table, int64_t rows,
                           int64_t first, REAL *buffer, REAL *s) {
    int64_t depth = factors_of(kind, width), pitch = kind == WORDS ? depth : pitch_of(width);
    if (HAS_MATRIX && kind != NUMBERS) {
        squares_of_queries(kind, m, depth, x_words, table, rows, first, s);
        return;
    }
    if (kind == WORDS) x = x_words;
    int64_t step;
    const REAL *columns = slice_columns(table, rows, depth, first, buffer, &step);
    for (int64_t r = 0; r < m->rows; r += STRIP) {
        int64_t count = least(STRIP, m->rows - r), from, to;
        spanned(m->band, r, count, m->columns, &from, &to);
        if (to > from)
            strip(kind, count, to - from + count - 1, depth, x + r * pitch, pitch, 1,
                  columns + from + m->rows - r - count, step, s + r * PITCH + from - (count - 1),
                  PITCH + 1, 1);
    }
}

/* out[i] += sum over j of p[i, j] slice[t]; words of p hold (i, j) and (i, j + 1), and meet those of
   the slice from an even row on. */
static void gather_to_queries(enum factors kind, const struct meeting *m, const REAL *p,
                              const REAL *slice, int64_t pitch, int64_t width, REAL *out,
                              int64_t out_pitch) {
    int64_t held = held_by(kind);
    if (HAS_MATRIX && kind == WORDS) {
        squares_to_queries(m, p, slice, pitch, width, out, out_pitch);
        return;
    }
    for (int64_t r = 0; r < m->rows; r += m->height) {
        int64_t count = least(m->height, m->rows - r), from, to;
        spanned(m->band, r, count, m->columns, &from, &to);
        int64_t first = from + m->rows - r - count, odd = first % held;
        if (to > from)
            strip(kind, count, width, factors_of(kind, to - from + count - 1 + odd),
                  p + r * PITCH + from - (count - 1) - odd, PITCH + 1, held,
                  slice + first / held * pitch, pitch, out + r * out_pitch, out_pitch, 1);
    }
}

/* grad[t] = sum over the pairs of distance t of p[i, j] x[i] */
static void sum_of_queries(const struct meeting *m, const REAL *p, const REAL *x, int64_t pitch,
                           int64_t width, REAL *grad) {
    int64_t end = m->band.last + m->rows;
    for (int64_t t = m->band.first + m->rows - 1; t < end; t += m->height) {
        int64_t count = least(m->height, end - t);
        int64_t from = most(0, m->rows - t - count), to = least(m->rows, m->columns + m->rows - 1 - t);
        strip(NUMBERS, count, width, to - from, p + from * (PITCH + 1) + t - (m->rows - 1), 1, PITCH + 1,
              x + from * pitch, pitch, grad + t * pitch, pitch, 0);
    }
}

/* S[i, j] += x[j] . slice[t], by way of the transposed, mirrored tile. */
static void add_of_keys(enum factors kind, const struct meeting *m, int64_t width, const REAL *x,
                        const REAL *x_words, const REAL *table, int64_t rows, int64_t first,
                        REAL *buffer, REAL *mirror, REAL *s) {
    int64_t depth = factors_of(kind, width), pitch = kind == WORDS ? depth : pitch_of(width);
    const int squares = HAS_MATRIX && kind != NUMBERS;
    if (squares) squares_of_keys(kind, m, depth, x_words, table, rows, first, mirror);
    if (kind == WORDS) x = x_words;
    int64_t step;
    const REAL *columns =
        squares ? 0 : slice_columns(table, rows, depth, first, buffer, &step);
    struct band band = transposed(m->band);
    for (int64_t r = 0; !squares && r < m->columns; r += STRIP) {
        int64_t count = least(STRIP, m->columns - r), from, to;
        spanned(band, r, count, m->rows, &from, &to);
        if (to > from)
            strip(kind, count, to - from + count - 1, depth, x + r * pitch, pitch, 1,
                  columns + r + m->rows - to, step, mirror + r * PITCH + m->rows - to, PITCH - 1,
                  0);
    }
    transpose(1, mirror, PITCH, m->columns, m->rows, s + (m->rows - 1) * PITCH, -PITCH);
}

/* out[j] += sum over i of p[i, j] slice[t]; words of p hold (i, j) and (i - 1, j). */
static void gather_to_keys(enum factors kind, const struct meeting *m, const REAL *p,
                           const REAL *slice, int64_t pitch, int64_t width, REAL *out,
                           int64_t out_pitch) {
    struct band band = transposed(m->band);
    int64_t held = held_by(kind);
    if (HAS_MATRIX && kind == WORDS) {
        squares_to_keys(m, p, slice, pitch, width, out, out_pitch);
        return;
    }
    for (int64_t r = 0; r < m->columns; r += m->height) {
        int64_t count = least(m->height, m->columns - r), from, to;
        spanned(band, r, count, m->rows, &from, &to);
        int64_t first = r + m->rows - to, odd = first % held;
        if (to > from)
            strip(kind, count, width, factors_of(kind, to - from + count - 1 + odd),
                  p + (to - 1 + odd) * PITCH + r, PITCH + 1, -held * PITCH,
                  slice + first / held * pitch, pitch, out + r * out_pitch, out_pitch, 1);
    }
}

/* grad[t] = sum over the pairs of distance t of p[i, j] x[j] */
static void sum_of_keys(const struct meeting *m, const REAL *p, const REAL *x, int64_t pitch,
                        int64_t width, REAL *grad) {
    int64_t end = m->band.last + m->rows;
    for (int64_t t = m->band.first + m->rows - 1; t < end; t += m->height) {
        int64_t count = least(m->height, end - t);
        int64_t from = most(0, t - (m->rows - 1)), to = least(m->columns, t + count);
        strip(NUMBERS, count, width, to - from, p + (from - t + m->rows - 1) * PITCH + from, -PITCH,
              PITCH + 1, x + from * pitch, pitch, grad + t * pitch, pitch, 0);
    }
}

/* Adds `factor` times the rows of a slice's gradient to those that they were read from. */
static void scatter_slice(const struct meeting *m, const REAL *grad, int64_t pitch, int64_t width,
                          int64_t first, int64_t rows, REAL factor, REAL *to) {
    for (int64_t t = m->band.first + m->rows - 1; t < m->band.last + m->rows; t++) {
        add_row(to + clamped(first + t, rows) * width, factor, grad + t * pitch, width);
    }
}
