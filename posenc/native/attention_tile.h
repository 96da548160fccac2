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
INLINE int64_t padded(int64_t n) { return (n + 15) / 16 * 16; }
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

/* The rows of a table that the visible pairs read: -1 where all read the first, 1 the last. */
INLINE int far_side(const struct meeting *m, int64_t zero, int64_t rows) {
    if (m->band.last + m->distance + zero <= 0) return -1;
    return m->band.first + m->distance + zero >= rows - 1;
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

/* `count` rows of a tensor, converted, their columns padded with zeros. */
static void pack_rows(const void *x, int64_t type, int64_t offset, int64_t stride, int64_t count,
                      int64_t width, REAL *to, int64_t pitch) {
    for (int64_t r = 0; r < count; r++, to += pitch) {
        int64_t at = offset + r * stride;
        if (type == PE_BFLOAT16) {
            pack_16(PE_BFLOAT16, (const uint16_t *)x + at, width, to);
        } else if (type == PE_FLOAT16) {
            pack_16(PE_FLOAT16, (const uint16_t *)x + at, width, to);
        } else {
            const REAL *from = (const REAL *)x + at;
            for (int64_t c = 0; c < width; c++) to[c] = from[c];
        }
        for (int64_t c = width; c < pitch; c++) to[c] = 0;
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

/* The transpose of packed rows: (width, TILE), columns from count on are zeros. */
static void transpose(const REAL *from, int64_t pitch, int64_t count, int64_t width, REAL *to) {
    for (int64_t c = 0; c < width; c++)
        for (int64_t r = 0; r < count; r++) to[c * TILE + r] = from[r * pitch + c];
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
            for (int64_t c = 0; c < width; c++) to[c] = from[c] * factor;
        }
    }
}
