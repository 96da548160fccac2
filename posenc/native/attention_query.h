/* One query against keys that are read where they lie: packing them would take longer than all else.

   Keys come in tiles, and the softmax goes on from one to the next, as for many queries. */

/* Sums of neighbours, of two vectors. A vector of AVX2 is two halves, and a shuffle that crosses
   them takes longer: the last step alone does. */
#if LANES == 8 && IS_FLOAT
#define NEIGHBOURS(a, b) \
    (SHUFFLE2(a, b, vi, 0, 2, 8, 10, 4, 6, 12, 14) + SHUFFLE2(a, b, vi, 1, 3, 9, 11, 5, 7, 13, 15))
#define HALVES(a, b) \
    (SHUFFLE2(a, b, vi, 0, 1, 2, 3, 8, 9, 10, 11) + SHUFFLE2(a, b, vi, 4, 5, 6, 7, 12, 13, 14, 15))
#elif LANES == 8
#define NEIGHBOURS(a, b) (SHUFFLE2(a, b, vl, 0, 4, 2, 6) + SHUFFLE2(a, b, vl, 1, 5, 3, 7))
#define HALVES(a, b) (SHUFFLE2(a, b, vl, 0, 1, 4, 5) + SHUFFLE2(a, b, vl, 2, 3, 6, 7))
#elif IS_FLOAT
#define NEIGHBOURS(a, b) (EVEN(a, b) + ODD(a, b))
#define HALVES NEIGHBOURS
#else
#define NEIGHBOURS(a, b) (EVEN_D(a, b) + ODD_D(a, b))
#define HALVES NEIGHBOURS
#endif

/* The sum of each of WIDE vectors. */
INLINE vr sums_of(vr *x) {
#pragma GCC unroll 4
    for (int n = VECTOR / 2; n > 1; n /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) x[i] = NEIGHBOURS(x[2 * i], x[2 * i + 1]);
    return HALVES(x[0], x[1]);
}

/* Rows as they are read: of the arithmetic's type, or of 16 bits, WIDE elements at a time. */
struct rows {
    const void *start;
    int64_t stride, width, type;
};

INLINE vr row_at(const int64_t type, const void *x, int64_t at) {
#if IS_FLOAT
    if (type == PE_BFLOAT16) return load_bf16((const uint16_t *)x + at);
    if (type == PE_FLOAT16) return load_f16((const uint16_t *)x + at);
#else
    (void)type;
#endif
    return get((const REAL *)x + at);
}

/* A function for each type of rows, and the one for this. */
#if IS_FLOAT
#define OF_EACH_TYPE(DEFINE, name)         \
    DEFINE(name##_real, REAL_TYPE)         \
    DEFINE(name##_bfloat16, PE_BFLOAT16)   \
    DEFINE(name##_float16, PE_FLOAT16)
#define OF_TYPE(name, type)                    \
    ((type) == PE_BFLOAT16  ? name##_bfloat16  \
     : (type) == PE_FLOAT16 ? name##_float16   \
                            : name##_real)
#else
#define OF_EACH_TYPE(DEFINE, name) DEFINE(name##_real, REAL_TYPE)
#define OF_TYPE(name, type) name##_real
#endif

/* `count` rows of a tensor: where they lie, or converted and padded in the buffer. */
static struct rows rows_of(const void *x, int64_t type, int64_t offset, int64_t stride,
                           int64_t count, int64_t width, REAL *buffer) {
    struct rows rows = {x, stride, width, type};
    if (width % WIDE == 0) {
        rows.start = (const char *)x + offset * (type == REAL_TYPE ? (int64_t)sizeof(REAL) : 2);
        return rows;
    }
    rows.width = padded(width);
    rows.stride = pitch_of(width);
    rows.type = REAL_TYPE;
    rows.start = buffer;
    pack_rows(x, type, offset, stride, count, width, buffer, rows.stride);
    return rows;
}

/* Queries that meet rows of 16 bits together, so that each is widened once for all of them. */
enum { TOGETHER = 4 };

/* How many of `count` queries go together: a power of 2. */
INLINE int64_t together(int64_t type, int64_t count) {
    if (type == REAL_TYPE) return 1;
    return count >= TOGETHER ? TOGETHER : count >= 2 ? 2 : 1;
}

/* sums[q][j] (+)= x[q] . row j, by WIDE products at a time. The x are padded and `pitch` apart,
   their sums TILE apart. */
INLINE void dots_by(const int64_t type, const int vectors, const int queries,
                    const struct rows *rows, int64_t from, int64_t to, const REAL *x,
                    int64_t pitch, int add, REAL *sums) {
    int64_t width = vectors ? vectors * WIDE : rows->width;
    /* Memory is read fastest row by row. With several queries the rows go side by side: they have
       few sums each, and a sum waits for its last term. */
    const int step = VECTOR / queries, side = queries == 1 ? 1 : step;
    for (int64_t j = from; j < to; j += step) {
        vr sum[VECTOR] = {{0}};
#pragma GCC unroll 16
        for (int first = 0; first < step; first += side)
#pragma GCC unroll 8
            for (int64_t c = 0; c < width; c += WIDE)
#pragma GCC unroll 4
                for (int n = first; n < first + side; n++) {
                    /* Beyond the end the last row again, of which nothing is kept. */
                    int64_t at = least(j + n, to - 1) * rows->stride;
                    vr row = row_at(type, rows->start, at + c);
#pragma GCC unroll 4
                    for (int q = 0; q < queries; q++)
                        sum[q * step + n] += row * get(x + q * pitch + c);
                }
        vr total = sums_of(sum);
        if (add) total += get(sums + j);
        if (queries == 1 && j + step <= to) {
            put(sums + j, total);
            continue;
        }
        REAL some[VECTOR];
        put(some, total);
        size_t kept = (size_t)least(step, to - j) * sizeof(REAL);
#pragma GCC unroll 4
        for (int q = 0; q < queries; q++) memcpy(sums + q * TILE + j, some + q * step, kept);
    }
}

INLINE void dots_for(const int64_t type, const int vectors, int64_t queries,
                     const struct rows *rows, int64_t from, int64_t to, const REAL *x,
                     int64_t pitch, int add, REAL *sums) {
    if (type == REAL_TYPE || queries == 1)
        dots_by(type, vectors, 1, rows, from, to, x, pitch, add, sums);
    else if (queries == 2)
        dots_by(type, vectors, 2, rows, from, to, x, pitch, add, sums);
    else
        dots_by(type, vectors, TOGETHER, rows, from, to, x, pitch, add, sums);
}

#define DOTS(name, type)                                                                      \
    static void name(int64_t queries, const struct rows *rows, int64_t from, int64_t to,      \
                     const REAL *x, int64_t pitch, int add, REAL *sums) {                     \
        if (rows->width == 64)                                                                \
            dots_for(type, 64 / VECTOR, queries, rows, from, to, x, pitch, add, sums);        \
        else                                                                                  \
            dots_for(type, 0, queries, rows, from, to, x, pitch, add, sums);                  \
    }
OF_EACH_TYPE(DOTS, dots)

INLINE void dots(int64_t queries, const struct rows *rows, int64_t from, int64_t to,
                 const REAL *x, int64_t pitch, int add, REAL *sums) {
    OF_TYPE(dots, rows->type)(queries, rows, from, to, x, pitch, add, sums);
}

/* Of the queries that go together, those whose sums the registers hold at once. */
enum { BLENDED = LANES == 16 ? TOGETHER : 2 };

/* sum[q][n] += weights[q] * vector n of a row, from `column` on. */
INLINE void blend_row(const int64_t type, const int vectors, const int queries,
                      const struct rows *rows, int64_t j, const REAL *weights, int64_t column,
                      vr (*sum)[4]) {
#pragma GCC unroll 4
    for (int n = 0; n < vectors; n++) {
        vr row = row_at(type, rows->start, j * rows->stride + column + n * WIDE);
#pragma GCC unroll 4
        for (int q = 0; q < queries; q++) sum[q][n] += all(weights[q * TILE + j]) * row;
    }
}

/* out[q][c] += the sum over rows from .. to of weights[q][j] * row j, for `vectors` vectors of
   columns. The weights are TILE apart, the sums `pitch`. */
INLINE void blend_by(const int64_t type, const int vectors, const int queries,
                     const struct rows *rows, int64_t from, int64_t to, const REAL *weights,
                     int64_t column, REAL *out, int64_t pitch) {
    vr even[BLENDED][4] = {{{0}}}, odd[BLENDED][4] = {{{0}}};
    int64_t j = from;
    for (; j + 1 < to; j += 2) {
        blend_row(type, vectors, queries, rows, j, weights, column, even);
        blend_row(type, vectors, queries, rows, j + 1, weights, column, odd);
    }
    if (j < to) blend_row(type, vectors, queries, rows, j, weights, column, even);
#pragma GCC unroll 4
    for (int q = 0; q < queries; q++)
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++) {
            REAL *sums = out + q * pitch + column + n * WIDE;
            put(sums, get(sums) + (even[q][n] + odd[q][n]));
        }
}

INLINE void blend_for(const int64_t type, const int wide, int64_t queries,
                      const struct rows *rows, int64_t from, int64_t to, const REAL *weights,
                      int64_t column, REAL *out, int64_t pitch) {
    const int some = wide ? 2 : 1;
    if (type == REAL_TYPE || queries == 1)
        blend_by(type, wide ? 4 : 1, 1, rows, from, to, weights, column, out, pitch);
    else if (queries == 2)
        blend_by(type, some, 2, rows, from, to, weights, column, out, pitch);
    else
        blend_by(type, some, BLENDED, rows, from, to, weights, column, out, pitch);
}

#define BLEND(name, type)                                                                      \
    static void name(int64_t queries, const struct rows *rows, int64_t from, int64_t to,       \
                     const REAL *weights, REAL *out, int64_t pitch) {                          \
        int64_t several = (queries == 1 ? 4 : 2) * WIDE, column = 0;                           \
        for (; column + several <= rows->width; column += several)                             \
            blend_for(type, 1, queries, rows, from, to, weights, column, out, pitch);          \
        for (; column < rows->width; column += WIDE)                                           \
            blend_for(type, 0, queries, rows, from, to, weights, column, out, pitch);          \
    }
OF_EACH_TYPE(BLEND, blend)

INLINE void blend(int64_t queries, const struct rows *rows, int64_t from, int64_t to,
                  const REAL *weights, REAL *out, int64_t pitch) {
    for (int64_t q = 0; q < queries; q += BLENDED) {
        int64_t some = least(queries - q, BLENDED);
        OF_TYPE(blend, rows->type)(some, rows, from, to, weights, out, pitch);
        weights += BLENDED * TILE, out += BLENDED * pitch;
    }
}

/* A run of columns that read consecutive rows of a table, or all one of its ends. */
struct reading {
    int64_t from, to, row;
    int same;
};

/* The next run of columns from .. to, of which column j reads row j + shift, clamped. */
static struct reading reading_from(int64_t from, int64_t to, int64_t shift, int64_t rows) {
    int64_t row = from + shift;
    if (row < 0) return (struct reading){from, least(to, -shift), 0, 1};
    if (row >= rows) return (struct reading){from, to, rows - 1, 1};
    return (struct reading){from, least(to, rows - shift), row, 0};
}

/* scores[j] += x . row of the distance of j. */
static void dots_with_table(const struct pe_table *table, int64_t h, int64_t width, int64_t from,
                            int64_t to, int64_t shift, const REAL *x, REAL *buffer, REAL *scores) {
    while (from < to) {
        struct reading run = reading_from(from, to, shift, table->rows);
        struct rows rows = rows_of(table_of(table, h, width), REAL_TYPE, run.row * width, width,
                                   run.same ? 1 : run.to - run.from, width, buffer);
        if (run.same) {
            REAL one[VECTOR];
            dots(1, &rows, 0, 1, x, 0, 0, one);
            for (int64_t j = run.from; j < run.to; j++) scores[j] += one[0];
        } else {
            dots(1, &rows, 0, run.to - run.from, x, 0, 1, scores + run.from);
        }
        from = run.to;
    }
}

/* scores[j] += row j . row of the distance of j. */
static void dots_of_keys(const struct pe_table *table, int64_t h, int64_t width, int64_t from,
                         int64_t to, int64_t shift, const struct rows *keys, REAL *buffer,
                         REAL *scores) {
    for (int64_t j = from; j < to; j++) {
        int64_t row = clamped(j + shift, table->rows);
        struct rows one = rows_of(table_of(table, h, width), REAL_TYPE, row * width, width, 1,
                                  width, buffer);
        vr sum = {0};
        for (int64_t c = 0; c < keys->width; c += WIDE)
            sum += row_at(REAL_TYPE, one.start, c) *
                   row_at(keys->type, keys->start, j * keys->stride + c);
        scores[j] += sum_of(sum);
    }
}

/* out += the sum over columns from .. to of weights[j] * row of the distance of j. */
static void blend_table(const struct pe_table *table, int64_t h, int64_t width, int64_t from,
                        int64_t to, int64_t shift, const REAL *weights, REAL *buffer, REAL *out) {
    while (from < to) {
        struct reading run = reading_from(from, to, shift, table->rows);
        struct rows rows = rows_of(table_of(table, h, width), REAL_TYPE, run.row * width, width,
                                   run.same ? 1 : run.to - run.from, width, buffer);
        REAL total = 0;
        for (int64_t j = run.from; run.same && j < run.to; j++) total += weights[j];
        if (run.same)
            blend(1, &rows, 0, 1, &total, out, 0);
        else
            blend(1, &rows, 0, run.to - run.from, weights + run.from, out, 0);
        from = run.to;
    }
}
