/* Tiles of queries and of keys, cut so that inside a pair of them all depends on j - i alone. */
#include "attention.h"
#include "posenc.h"

enum {
    TILE = 64,
    /* Zeros around a tile of weights: skewed products read over its edges. */
    EDGE = 16,
    MARGIN = 8,
    PITCH = TILE + 2 * EDGE,
    /* Tiles of queries that one worker takes at a time. */
    BLOCK_TILES = 4,
    BLOCK_ROWS = BLOCK_TILES * TILE,
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

/* Some rows of a tile, from row `first` on. */
INLINE struct tile part_of(const struct tile *whole, int64_t first, int64_t rows) {
    struct tile part = *whole;
    part.start += first;
    part.order += first;
    part.count = least(rows, whole->count - first);
    return part;
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
