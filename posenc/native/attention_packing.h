/* Rows of tensors in scratch and back: converted, padded to whole vectors, or turned into columns. */
#include "float16.h"

/* A row of 16 bits, converted; the last vector overlaps the one before it. */
INLINE void pack_16(const int64_t type, const uint16_t *from, int64_t width, REAL *to) {
    int64_t c = 0;
#if IS_FLOAT
    for (; c < width && width >= WIDE; c += WIDE) {
        int64_t at = least(c, width - WIDE);
        put(to + at, type == PE_BFLOAT16 ? load_bf16(from + at) : load_f16(from + at));
    }
#endif
    for (; c < width; c++)
        to[c] = (REAL)(type == PE_BFLOAT16 ? from_bf16(from[c]) : from_f16(from[c]));
}

INLINE void unpack_16(const int64_t type, const REAL *from, REAL factor, int64_t width,
                      uint16_t *to) {
    int64_t c = 0;
#if IS_FLOAT
    for (; c < width && width >= WIDE; c += WIDE) {
        int64_t at = least(c, width - WIDE);
        vr row = get(from + at) * factor;
        if (type == PE_BFLOAT16)
            store_bf16(to + at, row);
        else
            store_f16(to + at, row);
    }
#endif
    for (; c < width; c++) {
        float x = (float)(from[c] * factor);
        to[c] = type == PE_BFLOAT16 ? to_bf16(x) : to_f16(x);
    }
}

/* to[c] = factor * from[c]; the last vector overlaps the one before it. */
INLINE void copy_row(REAL *to, REAL factor, const REAL *from, int64_t width) {
    for (int64_t c = 0; c < width && width >= WIDE; c += WIDE) {
        int64_t at = least(c, width - WIDE);
        put(to + at, get(from + at) * factor);
    }
    if (width < WIDE) put_first(to, get_first(from, width) * factor, width);
}

/* to[c] += factor * from[c] */
INLINE void add_row(REAL *to, REAL factor, const REAL *from, int64_t width) {
    int64_t c = 0;
    for (; c + WIDE <= width; c += WIDE) put(to + c, get(to + c) + get(from + c) * factor);
    for (; c < width; c++) to[c] += factor * from[c];
}

/* A row, zeros behind it. */
INLINE void pad_row(const REAL *from, int64_t width, REAL *to, int64_t pitch) {
    int64_t c = 0;
    for (; c + WIDE <= width; c += WIDE) put(to + c, get(from + c));
    for (; c < pitch; c += WIDE) put(to + c, c < width ? get_first(from + c, width - c) : all(0));
}

/* `count` rows of a tensor, converted, their columns padded with zeros. */
static void pack_rows(const void *x, int64_t type, int64_t offset, int64_t stride, int64_t count,
                      int64_t width, REAL *to, int64_t pitch) {
    for (int64_t r = 0; r < count; r++, to += pitch) {
        int64_t at = offset + r * stride;
        if (type == REAL_TYPE) {
            pad_row((const REAL *)x + at, width, to, pitch);
            continue;
        }
        for (int64_t c = width / WIDE * WIDE; c < pitch; c += WIDE) put(to + c, all(0));
        if (type == PE_BFLOAT16)
            pack_16(PE_BFLOAT16, (const uint16_t *)x + at, width, to);
        else
            pack_16(PE_FLOAT16, (const uint16_t *)x + at, width, to);
    }
}

/* Whether there is no NaN and no infinity among numbers: times 0 those are NaN. */
static int all_finite(const REAL *x, int64_t count) {
    vr sum = {0}, other = {0};
    int64_t i = 0;
    for (; i + 2 * WIDE <= count; i += 2 * WIDE) {
        sum += get(x + i) * (REAL)0;
        other += get(x + i + WIDE) * (REAL)0;
    }
    REAL rest = 0;
    for (; i < count; i++) rest += x[i] * 0;
    return sum_of(sum + other) + rest == 0;
}

/* Zeros in place of what is not finite. */
static void drop_others(REAL *x, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i])) x[i] = 0;
}

#if defined(__AVX2__) && IS_FLOAT
enum { SQUARE = 8 };
INLINE void put_row(const int add, REAL *to, __m256d row) {
    __m256 x = (__m256)row;
    _mm256_storeu_ps(to, add ? _mm256_add_ps(_mm256_loadu_ps(to), x) : x);
}

/* 8 rows of 8 numbers become 8 columns, by halves of the rows. */
INLINE void transpose_square(const int add, const REAL *from, int64_t pitch, REAL *to,
                             int64_t to_pitch) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++, from += 4, to += 4 * to_pitch) {
        __m256 x[4];
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++)
            x[r] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from + r * pitch)),
                                        _mm_loadu_ps(from + (r + 4) * pitch), 1);
        __m256d low = (__m256d)_mm256_unpacklo_ps(x[0], x[1]);
        __m256d high = (__m256d)_mm256_unpackhi_ps(x[0], x[1]);
        __m256d next_low = (__m256d)_mm256_unpacklo_ps(x[2], x[3]);
        __m256d next_high = (__m256d)_mm256_unpackhi_ps(x[2], x[3]);
        put_row(add, to, _mm256_unpacklo_pd(low, next_low));
        put_row(add, to + to_pitch, _mm256_unpackhi_pd(low, next_low));
        put_row(add, to + 2 * to_pitch, _mm256_unpacklo_pd(high, next_high));
        put_row(add, to + 3 * to_pitch, _mm256_unpackhi_pd(high, next_high));
    }
}
#else
enum { SQUARE = 1 };
INLINE void transpose_square(const int add, const REAL *from, int64_t pitch, REAL *to,
                             int64_t to_pitch) {
    (void)pitch, (void)to_pitch;
    *to = add ? *to + *from : *from;
}
#endif

/* to[c, r] = from[r, c], or += where it is to add. */
INLINE void transpose(const int add, const REAL *from, int64_t pitch, int64_t rows,
                      int64_t columns, REAL *to, int64_t to_pitch) {
    int64_t square_rows = rows - rows % SQUARE, square_columns = columns - columns % SQUARE;
    for (int64_t c = 0; c < square_columns; c += SQUARE)
        for (int64_t r = 0; r < square_rows; r += SQUARE)
            transpose_square(add, from + r * pitch + c, pitch, to + c * to_pitch + r, to_pitch);
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = c < square_columns ? square_rows : 0; r < rows; r++) {
            REAL *x = to + c * to_pitch + r;
            *x = add ? *x + from[r * pitch + c] : from[r * pitch + c];
        }
}

/* The transpose of a tile's packed rows: (width, TILE), columns from count on are zeros. */
static void transpose_tile(const REAL *from, int64_t pitch, int64_t count, int64_t width, REAL *to) {
    transpose(0, from, pitch, count, width, to, TILE);
    if (count == TILE) return;
    for (int64_t c = 0; c < width; c++)
        for (int64_t r = count; r < TILE; r++) to[c * TILE + r] = 0;
}

static void unpack_rows(const REAL *from, int64_t pitch, REAL factor, int64_t count, int64_t width,
                        void *x, int64_t type, int64_t offset, int64_t stride) {
    for (int64_t r = 0; r < count; r++, from += pitch) {
        int64_t at = offset + r * stride;
        if (type == PE_BFLOAT16)
            unpack_16(PE_BFLOAT16, from, factor, width, (uint16_t *)x + at);
        else if (type == PE_FLOAT16)
            unpack_16(PE_FLOAT16, from, factor, width, (uint16_t *)x + at);
        else
            copy_row((REAL *)x + at, factor, from, width);
    }
}
