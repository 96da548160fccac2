/* Tables of vectors on a tile: row i and column j read the table's row of their distance.

   A slice holds the REACH rows of a table from the lowest distance of a meeting on, so that pair
   (i, j) reads row t = j - i + rows - 1 of it. A strip of rows then meets a few more rows of the
   slice than it has columns, as a plain product; that its rows are shifted against each other
   costs nothing, for the steps between rows of A and of C may be longer by one. */

/* Rows of a slice as columns: (width, REACH) out of the transposed table (width, pitch). */
static void slice_columns(const REAL *table, int64_t pitch, int64_t rows, int64_t width,
                          int64_t first, REAL *to) {
    int64_t low = least(most(-first, 0), REACH), high = most(least(rows - first, REACH), low);
    for (int64_t c = 0; c < width; c++, table += pitch, to += REACH) {
        for (int64_t t = 0; t < low; t++) to[t] = table[0];
        memcpy(to + low, table + first + low, (size_t)(high - low) * sizeof(REAL));
        for (int64_t t = high; t < REACH; t++) to[t] = table[rows - 1];
    }
}

/* The slice itself, (REACH, pitch), its columns padded with zeros. */
static void slice_rows(const REAL *table, int64_t rows, int64_t width, int64_t first, int64_t count,
                       REAL *to, int64_t pitch) {
    if (pitch == width && first >= 0 && first + count <= rows) {
        memcpy(to, table + first * width, (size_t)(count * width) * sizeof(REAL));
        return;
    }
    for (int64_t t = 0; t < count; t++, to += pitch) {
        copy_row(to, 1, table + clamped(first + t, rows) * width, width);
        for (int64_t c = width; c < pitch; c++) to[c] = 0;
    }
}

/* S[i, j] += x[i] . slice[t] */
static void add_of_queries(const struct meeting *m, const REAL *x, int64_t pitch, int64_t width,
                           const REAL *columns, REAL *s) {
    for (int64_t r = 0; r < m->rows; r += STRIP) {
        int64_t count = least(STRIP, m->rows - r), from, to;
        spanned(m->band, r, count, m->columns, &from, &to);
        if (to > from)
            strip(NUMBERS, count, to - from + count - 1, width, x + r * pitch, pitch, 1,
                  columns + from + m->rows - r - count, REACH, s + r * PITCH + from - (count - 1),
                  PITCH + 1, 1);
    }
}

/* out[i] += sum over j of p[i, j] slice[t] */
static void gather_to_queries(const struct meeting *m, const REAL *p, const REAL *slice,
                              int64_t pitch, int64_t width, REAL *out, int64_t out_pitch) {
    for (int64_t r = 0; r < m->rows; r += m->height) {
        int64_t count = least(m->height, m->rows - r), from, to;
        spanned(m->band, r, count, m->columns, &from, &to);
        if (to > from)
            strip(NUMBERS, count, width, to - from + count - 1, p + r * PITCH + from - (count - 1),
                  PITCH + 1, 1, slice + (from + m->rows - r - count) * pitch, pitch,
                  out + r * out_pitch, out_pitch, 1);
    }
}

/* grad[t] = sum over the pairs of distance t of p[i, j] x[i] */
static void sum_of_queries(const struct meeting *m, const REAL *p, const REAL *x, int64_t pitch,
                           int64_t width, REAL *grad, int64_t grad_pitch) {
    int64_t end = m->band.last + m->rows;
    for (int64_t t = m->band.first + m->rows - 1; t < end; t += m->height) {
        int64_t count = least(m->height, end - t);
        int64_t from = most(0, m->rows - t - count), to = least(m->rows, m->columns + m->rows - 1 - t);
        strip(NUMBERS, count, width, to - from, p + from * (PITCH + 1) + t - (m->rows - 1), 1, PITCH + 1,
              x + from * pitch, pitch, grad + t * grad_pitch, grad_pitch, 0);
    }
}

/* S[i, j] += x[j] . slice[t], by way of the transposed, mirrored tile. */
static void add_of_keys(const struct meeting *m, const REAL *x, int64_t pitch, int64_t width,
                        const REAL *columns, REAL *mirror, REAL *s) {
    struct band band = transposed(m->band);
    for (int64_t r = 0; r < m->columns; r += STRIP) {
        int64_t count = least(STRIP, m->columns - r), from, to;
        spanned(band, r, count, m->rows, &from, &to);
        if (to > from)
            strip(NUMBERS, count, to - from + count - 1, width, x + r * pitch, pitch, 1,
                  columns + r + m->rows - to, REACH, mirror + r * PITCH + m->rows - to, PITCH - 1,
                  0);
    }
    transpose(1, mirror, PITCH, m->columns, m->rows, s + (m->rows - 1) * PITCH, -PITCH);
}

/* out[j] += sum over i of p[i, j] slice[t] */
static void gather_to_keys(const struct meeting *m, const REAL *p, const REAL *slice, int64_t pitch,
                           int64_t width, REAL *out, int64_t out_pitch) {
    struct band band = transposed(m->band);
    for (int64_t r = 0; r < m->columns; r += m->height) {
        int64_t count = least(m->height, m->columns - r), from, to;
        spanned(band, r, count, m->rows, &from, &to);
        if (to > from)
            strip(NUMBERS, count, width, to - from + count - 1, p + (to - 1) * PITCH + r, PITCH + 1, -PITCH,
                  slice + (r + m->rows - to) * pitch, pitch, out + r * out_pitch, out_pitch, 1);
    }
}

/* grad[t] = sum over the pairs of distance t of p[i, j] x[j] */
static void sum_of_keys(const struct meeting *m, const REAL *p, const REAL *x, int64_t pitch,
                        int64_t width, REAL *grad, int64_t grad_pitch) {
    int64_t end = m->band.last + m->rows;
    for (int64_t t = m->band.first + m->rows - 1; t < end; t += m->height) {
        int64_t count = least(m->height, end - t);
        int64_t from = most(0, t - (m->rows - 1)), to = least(m->columns, t + count);
        strip(NUMBERS, count, width, to - from, p + (from - t + m->rows - 1) * PITCH + from, -PITCH,
              PITCH + 1, x + from * pitch, pitch, grad + t * grad_pitch, grad_pitch, 0);
    }
}

/* Adds `factor` times the rows of a slice's gradient to those that they were read from. */
static void scatter_slice(const struct meeting *m, const REAL *grad, int64_t pitch, int64_t width,
                          int64_t first, int64_t rows, REAL factor, REAL *to) {
    for (int64_t t = m->band.first + m->rows - 1; t < m->band.last + m->rows; t++) {
        add_row(to + clamped(first + t, rows) * width, factor, grad + t * pitch, width);
    }
}
