/* Tiles of queries and of keys, cut so that inside a pair of them all depends on j - i alone. */
#include "attention.h"
#include "float16.h"
#include "posenc.h"

enum {
    TILE = 64,
    /* Zeros around a tile of weights: skewed products read over its edges. */
    EDGE = 16,
    MARGIN = 8,
    PITCH = TILE + 2 * EDGE,
    /* Distances between two tiles, and as many more as vectors may run over. */
    REACH = 2 * TILE + 16,
};

/* `count` tokens from `start` on, of one document and chunk, whose orders rise by 1. */
struct tile {
    int64_t start, count, order, document, chunk;
    int64_t hidden, in_prefix, in_sinks;
};

/* Rows of n columns, rounded up to vectors, and to an odd number of cache lines where many rows
   would else share few sets of the cache. */
INLINE int64_t padded(int64_t n) { return (n + WIDE - 1) / WIDE * WIDE; }
INLINE int64_t pitch_of(int64_t n) {
    n = padded(n);
    return n % 128 ? n : n + 16;
}

INLINE int64_t value_at(const int64_t *x, int64_t step, int64_t b, int64_t i, int64_t standard) {
    return x ? x[b * step + i] : standard;
}

/* At most this many tiles: one for each token where the tokens come in no order. */
static int64_t tiles_at_most(const struct pe_tokens *x, const uint8_t *valid, int64_t chunk,
                             int64_t count) {
    int64_t regular = !x->order && !x->document && !valid;
    int64_t chunks = chunk ? count / chunk + 2 : 0;
    return regular ? least(count, count / TILE + 4 + chunks) : count;
}

/* Rounded down, of negative orders too. */
INLINE int64_t chunk_of(int64_t order, int64_t chunk) {
    return chunk ? order / chunk - (order % chunk < 0) : 0;
}

static int64_t cut(const struct pe_attention *p, int64_t b, int of_keys, struct tile *tiles) {
    const struct pe_tokens *x = of_keys ? &p->k_tokens : &p->q_tokens;
    int64_t length = of_keys ? p->keys : p->queries, shift = of_keys ? 0 : p->keys - p->queries;
    int64_t count = 0;
    for (int64_t i = 0; i < length; i++) {
        struct tile t = {.start = i, .count = 1};
        t.order = value_at(x->order, x->order_step, b, i, i + shift);
        t.document = value_at(x->document, x->document_step, b, i, 0);
        t.chunk = chunk_of(t.order, p->chunk);
        if (of_keys) {
            t.hidden = p->valid && !p->valid[b * p->valid_step + i];
            /* Orders may be negative, and without a prefix none is in it. */
            t.in_prefix = p->prefix > 0 && t.order < p->prefix;
            t.in_sinks = p->sinks > 0 && t.order < p->sinks;
        }
        struct tile *last = tiles + count - 1;
        if (count && last->count < TILE && t.order == last->order + last->count && t.document == last->document &&
            t.chunk == last->chunk && t.hidden == last->hidden && t.in_prefix == last->in_prefix &&
            t.in_sinks == last->in_sinks)
            last->count++;
        else
            tiles[count++] = t;
    }
    return count;
}

/* A tile of queries meets a tile of keys: the distance of their first tokens, and the visible band.
   Pair (i, j) is at distance + j - i. Sums over visible pairs go by strips of `height` rows, and a
   strip multiplies what some of its rows do not see by zero. Where that could be NaN or infinite,
   the height is 1. */
struct meeting {
    int64_t rows, columns, distance, height;
    struct band band;
};

static int meet(const struct pe_attention *p, const struct tile *q, const struct tile *k,
                struct meeting *m) {
    if (k->hidden || q->document != k->document || q->chunk != k->chunk) return 0;
    int64_t step = k->order - q->order;
    struct band band = {1 - q->count, k->count - 1};
    if (p->causal && !k->in_prefix) band.last = least(band.last, -step);
    if (p->window >= 0 && !k->in_sinks) {
        band.first = most(band.first, 1 - p->window - step);
        band.last = least(band.last, p->window - 1 - step);
    }
    band = in_zone(p, step, band);
    if (band.first > band.last) return 0;
    m->rows = q->count;
    m->columns = k->count;
    m->distance = step;
    m->height = STRIP;
    m->band = band;
    return 1;
}

/* The end of a table that all visible pairs are beyond: -1 before its first row, 1 after its last. */
INLINE int far_side(const struct meeting *m, int64_t zero, int64_t rows) {
    if (m->band.last + m->distance + zero < 0) return -1;
    return m->band.first + m->distance + zero >= rows;
}

/* Whether any of these tiles may meet beyond an end of a table. */
static int reaches_ends(const struct pe_attention *p, const struct pe_table *x,
                        const struct tile *q, int64_t q_count, const struct tile *k,
                        int64_t k_count) {
    if (!x->weight || !q_count || !k_count) return 0;
    int64_t q_first = q->order, q_last = q_first, k_first = k->order, k_last = k_first;
    for (; q_count > 0; q++, q_count--) {
        q_first = least(q_first, q->order);
        q_last = most(q_last, q->order + q->count - 1);
    }
    for (; k_count > 0; k++, k_count--) {
        k_first = least(k_first, k->order);
        k_last = most(k_last, k->order + k->count - 1);
    }
    int64_t ahead = k_last - q_first;
    if (p->causal && p->prefix <= 0) ahead = least(ahead, 0);
    return k_first - q_last + x->zero < 0 || ahead + x->zero >= x->rows;
}

INLINE int64_t clamped(int64_t x, int64_t rows) { return x < 0 ? 0 : x >= rows ? rows - 1 : x; }

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

/* A row, padded with zeros to whole vectors. */
INLINE void copy_row(const REAL *from, int64_t width, REAL *to) {
    int64_t c = 0;
    for (; c + WIDE <= width; c += WIDE) put(to + c, get(from + c));
    if (c < width) put(to + c, get_some(from + c, width - c));
}

/* to[c] += factor * from[c] */
INLINE void add_row(REAL *to, REAL factor, const REAL *from, int64_t width) {
    int64_t c = 0;
    for (; c + WIDE <= width; c += WIDE) put(to + c, get(to + c) + get(from + c) * factor);
    for (; c < width; c++) to[c] += factor * from[c];
}

/* `count` rows of a tensor, converted, their columns padded with zeros. */
static void pack_rows(const void *x, int64_t type, int64_t offset, int64_t stride, int64_t count,
                      int64_t width, REAL *to, int64_t pitch) {
    for (int64_t r = 0; r < count; r++, to += pitch) {
        int64_t at = offset + r * stride, c = 0;
        if (type == PE_BFLOAT16) {
            pack_16(PE_BFLOAT16, (const uint16_t *)x + at, width, to);
            c = width;
        } else if (type == PE_FLOAT16) {
            pack_16(PE_FLOAT16, (const uint16_t *)x + at, width, to);
            c = width;
        } else {
            copy_row((const REAL *)x + at, width, to);
            c = padded(width);
        }
        for (; c < pitch; c++) to[c] = 0;
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
        if (type == PE_BFLOAT16) {
            unpack_16(PE_BFLOAT16, from, factor, width, (uint16_t *)x + at);
        } else if (type == PE_FLOAT16) {
            unpack_16(PE_FLOAT16, from, factor, width, (uint16_t *)x + at);
        } else {
            REAL *to = (REAL *)x + at;
            int64_t c = 0;
            for (; c + WIDE <= width; c += WIDE) put(to + c, get(from + c) * factor);
            if (c < width) put_some(to + c, get(from + c) * factor, width - c);
        }
    }
}
