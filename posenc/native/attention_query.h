/* One query against keys that are read where they lie: packing them would take longer than all else.

   Keys come in tiles, and the softmax goes on from one to the next, as for many queries. */

/* Elements of even and of odd index, of two vectors. */
#if IS_FLOAT
#define EVENS EVEN
#define ODDS ODD
#else
#define EVENS EVEN_D
#define ODDS ODD_D
#endif

/* The sum of each of WIDE vectors. */
INLINE vr sums_of(vr *x) {
#pragma GCC unroll 4
    for (int n = VECTOR / 2; n > 0; n /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < n; i++)
            x[i] = EVENS(x[2 * i], x[2 * i + 1]) + ODDS(x[2 * i], x[2 * i + 1]);
    return x[0];
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

/* to[j] (+)= x . row j, by WIDE rows at a time; x is padded, and so is `to`. */
INLINE void dots_by(const int64_t type, const int vectors, const struct rows *rows, int64_t from,
                    int64_t to, const REAL *x, int add, REAL *sums) {
    int64_t width = vectors ? vectors * WIDE : rows->width;
    for (int64_t j = from; j < to; j += WIDE) {
        vr sum[VECTOR];
#pragma GCC unroll 16
        for (int n = 0; n < VECTOR; n++) {
            /* Beyond the end the last row again, of which nothing is kept. */
            int64_t at = least(j + n, to - 1) * rows->stride;
            sum[n] = row_at(type, rows->start, at) * get(x);
#pragma GCC unroll 8
            for (int64_t c = WIDE; c < width; c += WIDE)
                sum[n] += row_at(type, rows->start, at + c) * get(x + c);
        }
        vr total = sums_of(sum);
        if (add) total += get(sums + j);
        if (j + WIDE <= to) {
            put(sums + j, total);
        } else {
            REAL some[VECTOR];
            put(some, total);
            memcpy(sums + j, some, (size_t)(to - j) * sizeof(REAL));
        }
    }
}

#define DOTS(name, type, vectors)                                                               \
    static void name(const struct rows *rows, int64_t from, int64_t to, const REAL *x, int add, \
                     REAL *sums) {                                                              \
        dots_by(type, vectors, rows, from, to, x, add, sums);                                   \
    }
DOTS(dots_of_64, REAL_TYPE, 64 / VECTOR)
DOTS(dots_of_any, REAL_TYPE, 0)
DOTS(dots_of_64_bfloat16, PE_BFLOAT16, 64 / VECTOR)
DOTS(dots_of_any_bfloat16, PE_BFLOAT16, 0)
DOTS(dots_of_64_float16, PE_FLOAT16, 64 / VECTOR)
DOTS(dots_of_any_float16, PE_FLOAT16, 0)

INLINE void dots(const struct rows *rows, int64_t from, int64_t to, const REAL *x, int add,
                 REAL *sums) {
    int usual = rows->width == 64;
    if (rows->type == PE_BFLOAT16)
        (usual ? dots_of_64_bfloat16 : dots_of_any_bfloat16)(rows, from, to, x, add, sums);
    else if (rows->type == PE_FLOAT16)
        (usual ? dots_of_64_float16 : dots_of_any_float16)(rows, from, to, x, add, sums);
    else
        (usual ? dots_of_64 : dots_of_any)(rows, from, to, x, add, sums);
}

/* out[c] += the sum over rows from .. to of weights[j] * row j. */
INLINE void blend_by(const int64_t type, const int vectors, const struct rows *rows, int64_t from,
                     int64_t to, const REAL *weights, int64_t column, REAL *out) {
    vr even[4], odd[4];
#pragma GCC unroll 4
    for (int n = 0; n < vectors; n++) even[n] = get(out + column + n * WIDE), odd[n] = all(0);
    int64_t j = from;
    for (; j + 1 < to; j += 2) {
        int64_t at = j * rows->stride + column;
        vr one = all(weights[j]), other = all(weights[j + 1]);
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++) {
            even[n] += one * row_at(type, rows->start, at + n * WIDE);
            odd[n] += other * row_at(type, rows->start, at + rows->stride + n * WIDE);
        }
    }
    vr last = all(j < to ? weights[j] : 0);
#pragma GCC unroll 4
    for (int n = 0; n < vectors; n++) {
        if (j < to) even[n] += last * row_at(type, rows->start, j * rows->stride + column + n * WIDE);
        put(out + column + n * WIDE, even[n] + odd[n]);
    }
}

#define BLEND(name, type, vectors)                                                         \
    static void name(const struct rows *rows, int64_t from, int64_t to, const REAL *weights, \
                     int64_t column, REAL *out) {                                          \
        blend_by(type, vectors, rows, from, to, weights, column, out);                     \
    }
BLEND(blend_4, REAL_TYPE, 4)
BLEND(blend_1, REAL_TYPE, 1)
BLEND(blend_4_bfloat16, PE_BFLOAT16, 4)
BLEND(blend_1_bfloat16, PE_BFLOAT16, 1)
BLEND(blend_4_float16, PE_FLOAT16, 4)
BLEND(blend_1_float16, PE_FLOAT16, 1)

INLINE void blend(const struct rows *rows, int64_t from, int64_t to, const REAL *weights,
                  REAL *out) {
    for (int64_t column = 0; column < rows->width;) {
        int wide = column + 4 * WIDE <= rows->width;
        if (rows->type == PE_BFLOAT16)
            (wide ? blend_4_bfloat16 : blend_1_bfloat16)(rows, from, to, weights, column, out);
        else if (rows->type == PE_FLOAT16)
            (wide ? blend_4_float16 : blend_1_float16)(rows, from, to, weights, column, out);
        else
            (wide ? blend_4 : blend_1)(rows, from, to, weights, column, out);
        column += wide ? 4 * WIDE : WIDE;
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
            dots(&rows, 0, 1, x, 0, one);
            for (int64_t j = run.from; j < run.to; j++) scores[j] += one[0];
        } else {
            dots(&rows, 0, run.to - run.from, x, 1, scores + run.from);
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
            blend(&rows, 0, 1, &total, out);
        else
            blend(&rows, 0, run.to - run.from, weights + run.from, out);
        from = run.to;
    }
}
