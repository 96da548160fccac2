/* The products of attention_skew.h by the matrix unit, of words. Its squares cannot be skewed: some rows
   together meet all rows of the table that any of them reads, and each takes, or brings, its own. */

enum {
    /* Rows of a tile that meet a table together. */
    STACK = 2 * SIDE,
    /* Numbers beside such a row: those of a tile and a stack, and whole squares. */
    SPAN = TILE + STACK,
    MET = SPAN + SIDE,
};

INLINE int64_t parts_of(enum factors kind) { return kind == THREE_WORDS ? 3 : 1; }

/* A table as columns for squares: of SIDE rows at a time (parts, halves(width), SIDE) words of
   neighbours in them; its ends, which go on, are such a square each. The parts are what words hold of
   the numbers, of what those leave, and of what is left then. */
static void pack_table(enum factors kind, const REAL *table, int64_t rows, int64_t width, REAL *to) {
    const int64_t parts = parts_of(kind), depth = halves(width);
    REAL words[3][SIDE * SIDE];
    for (int64_t r = -SIDE; r < rows + SIDE; r += SIDE, to += parts * depth * SIDE)
        for (int64_t c = 0; c < width; c += 2 * WIDE) {
            for (int64_t i = 0; i < SIDE; i++) {
                const REAL *row = table + clamped(r + i, rows) * width + c;
                vr first = get_first(row, least(WIDE, width - c)), second = {0};
                if (c + WIDE < width) second = get_first(row + WIDE, least(WIDE, width - c - WIDE));
                for (int64_t n = 0; n < parts; n++) {
                    vr upper = upper_of(first), next = upper_of(second);
                    put(words[n] + i * SIDE, words_of(upper, next));
                    first -= upper, second -= next;
                }
            }
            for (int64_t n = 0; n < parts; n++)
                transpose(0, words[n], SIDE, SIDE, least(SIDE, depth - c / 2),
                          to + (n * depth + c / 2) * SIDE, SIDE);
        }
}

/* met[n, t] = x[n] . table[first + t] for `count` rows and `reach` rows of the table, from where a
   square of it begins; returns how far before `first` that is. */
static int64_t meet_table(enum factors kind, int64_t count, int64_t depth, const REAL *x,
                          const REAL *table, int64_t rows, int64_t first, int64_t reach, REAL *met) {
    const int64_t parts = parts_of(kind), before = (first % SIDE + SIDE) % SIDE;
    const int64_t last = (rows + SIDE - 1) / SIDE + 1;
    int64_t square = (first - before) / SIDE + 1;
    for (int64_t t = 0; t < before + reach; t += SIDE, square++) {
        const REAL *b = table + least(most(square, 0), last) * parts * depth * SIDE;
        for (int64_t n = 0; n < parts; n++, b += depth * SIDE)
            rows_product(WORDS, count, SIDE, depth, x, depth, b, SIDE, met + t, MET, n > 0);
    }
    return before;
}

/* S[i, j] += x[i] . table[t], from row `first` of the table on. */
static void squares_of_queries(enum factors kind, const struct meeting *m, int64_t depth,
                               const REAL *x, const REAL *table, int64_t rows, int64_t first,
                               REAL *s) {
    REAL met[STACK * MET];
    for (int64_t r = 0; r < m->rows; r += STACK) {
        int64_t count = least(STACK, m->rows - r), from, to;
        spanned(m->band, r, count, m->columns, &from, &to);
        if (to <= from) continue;
        int64_t before = meet_table(kind, count, depth, x + r * depth, table, rows,
                                    first + m->rows - r - count, TILE + count - 1, met);
        for (int64_t i = 0; i < count; i++) {
            const REAL *own = met + i * MET + before + count - 1 - i;
            REAL *row = s + (r + i) * PITCH;
            for (int64_t c = from / WIDE * WIDE; c < to; c += WIDE)
                put(row + c, get(row + c) + get(own + c));
        }
    }
}

/* mirror[j, rows - 1 - i] = x[j] . table[t] */
static void squares_of_keys(enum factors kind, const struct meeting *m, int64_t depth, const REAL *x,
                            const REAL *table, int64_t rows, int64_t first, REAL *mirror) {
    REAL met[STACK * MET];
    for (int64_t r = 0; r < m->columns; r += STACK) {
        int64_t count = least(STACK, m->columns - r), from, to;
        spanned(transposed(m->band), r, count, m->rows, &from, &to);
        if (to <= from) continue;
        int64_t before = meet_table(kind, count, depth, x + r * depth, table, rows, first + r,
                                    padded(m->rows) + count - 1, met);
        for (int64_t j = 0; j < count; j++)
            for (int64_t c = 0; c < m->rows; c += WIDE)
                put(mirror + (r + j) * PITCH + c, get(met + j * MET + before + j + c));
    }
}

/* out[n] += sum of x[u] slice[u] over SPAN numbers from row n on, of rows of x that begin `step` apart;
   the slice is of words. */
static void squares_to_rows(int64_t count, const REAL *x, int64_t step, const REAL *slice,
                            int64_t pitch, int64_t width, REAL *out, int64_t out_pitch) {
    REAL words[SIDE * SPAN / 2];
    for (int64_t n = 0; n < count; n++, x += step)
        for (int64_t u = 0; u < SPAN; u += 2 * WIDE)
            put(words + (n * SPAN + u) / 2, words_of(get(x + u), get(x + u + WIDE)));
    rows_product(WORDS, count, width, SPAN / 2, words, SPAN / 2, slice, pitch, out, out_pitch, 1);
}

/* out[i] += sum over j of p[i, j] slice[t], of a tile that has zeros around it. */
static void squares_to_queries(const struct meeting *m, const REAL *p, const REAL *slice,
                               int64_t pitch, int64_t width, REAL *out, int64_t out_pitch) {
    for (int64_t r = 0; r < m->rows; r += SIDE) {
        int64_t count = least(SIDE, m->rows - r), from, to;
        spanned(m->band, r, count, m->columns, &from, &to);
        if (to <= from) continue;
        /* Words of the slice begin at an even row. */
        int64_t first = m->rows - r - count, odd = first % 2;
        squares_to_rows(count, p + r * PITCH - (count - 1) - odd, PITCH + 1, slice + first / 2 * pitch,
                        pitch, width, out + r * out_pitch, out_pitch);
    }
}

/* out[j] += sum over i of p[i, j] slice[t] */
static void squares_to_keys(const struct meeting *m, const REAL *p, const REAL *slice,
                            int64_t pitch, int64_t width, REAL *out, int64_t out_pitch) {
    enum { LONG = SIDE + SPAN };
    REAL turned[SIDE * LONG];
    for (int64_t r = 0; r < m->columns; r += SIDE) {
        int64_t count = least(SIDE, m->columns - r), from, to;
        spanned(transposed(m->band), r, count, m->rows, &from, &to);
        if (to <= from) continue;
        memset(turned, 0, sizeof turned);
        transpose(0, p + (m->rows - 1) * PITCH + r, -PITCH, m->rows, count, turned + SIDE, LONG);
        squares_to_rows(count, turned + SIDE, LONG - 1, slice + r / 2 * pitch, pitch, width,
                        out + r * out_pitch, out_pitch);
    }
}
