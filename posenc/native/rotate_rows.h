/* Rows of one element type, as rotate.c includes this file once for each:

   NAMED(x)       x with the suffix of the type
   T, A, V        element in memory, in arithmetic, and a vector of WIDTH of the latter
   LOAD, STORE    between memory and V;  LOAD_TABLE the same from cos and sin
   SPLIT, JOIN    between memory and the firsts and seconds of WIDTH neighbouring pairs
   SPLITS         whether SPLIT and JOIN cost less than LOAD and STORE: halves are then read as
                  neighbours, and multiplied by the EVENS and ODDS of cos and sin. Where they cost
                  more, neighbours are multiplied as they lie, once by their own cos and once,
                  with SWAP of each pair, by sin
   FROM, TO       one element from memory, and back */

INLINE void NAMED(read)(const T *x, int64_t i, int64_t pairs, int interleaved, V *first, V *second) {
    if (interleaved) {
        SPLIT(x + 2 * i, first, second);
    } else {
        *first = LOAD(x + i);
        *second = LOAD(x + pairs + i);
    }
}

INLINE void NAMED(write)(T *y, int64_t i, int64_t pairs, int interleaved, V first, V second) {
    if (interleaved) {
        JOIN(y + 2 * i, first, second);
    } else {
        STORE(y + i, first);
        STORE(y + pairs + i, second);
    }
}

INLINE void NAMED(block)(T *y, V c, V s, int64_t i, int64_t pairs, int interleaved, int back,
                         V first, V second) {
    if (back)
        NAMED(write)(y, i, pairs, interleaved, first * c + second * s, second * c - first * s);
    else
        NAMED(write)(y, i, pairs, interleaved, first * c - second * s, first * s + second * c);
}

/* 2 WIDTH firsts, and as many seconds that lie `pairs` after them. */
INLINE void NAMED(halves)(const T *x, T *y, int64_t pairs, V even_cos, V odd_cos, V even_sin,
                          V odd_sin, int back) {
    V even_first, odd_first, even_second, odd_second;
    SPLIT(x, &even_first, &odd_first);
    SPLIT(x + pairs, &even_second, &odd_second);
    if (back) even_sin = -even_sin, odd_sin = -odd_sin;
    JOIN(y, even_first * even_cos - even_second * even_sin,
         odd_first * odd_cos - odd_second * odd_sin);
    JOIN(y + pairs, even_first * even_sin + even_second * even_cos,
         odd_first * odd_sin + odd_second * odd_cos);
}

/* For rows with fewer pairs than a vector holds. */
INLINE void NAMED(pair)(const T *x, T *y, A c, A s, int64_t i, int64_t pairs, int interleaved) {
    int64_t at = interleaved ? 2 * i : i, other = interleaved ? at + 1 : at + pairs;
    A first = FROM(x[at]), second = FROM(x[other]);
    y[at] = TO(first * c - second * s);
    y[other] = TO(first * s + second * c);
}

INLINE void NAMED(rows)(const T *x, T *y, const A *cos, const A *sin, const struct rows *rows,
                        int heads, int interleaved, int back) {
    const int64_t pairs = rows->pairs, whole = pairs / WIDTH * WIDTH, last = pairs - WIDTH;
    V first, second, last_first = {0}, last_second = {0};
    for (int64_t row = 0; row < rows->count; row++) {
        /* The last block overlaps the one before it: it is read before anything is written. */
        if (heads == 1 && last >= 0 && whole < pairs)
            NAMED(read)(x, last, pairs, interleaved, &last_first, &last_second);
        int64_t i = 0;
        for (; SPLITS && !interleaved && i + 2 * WIDTH <= pairs; i += 2 * WIDTH) {
            const V c1 = LOAD_TABLE(cos + i), c2 = LOAD_TABLE(cos + i + WIDTH);
            const V s1 = LOAD_TABLE(sin + i), s2 = LOAD_TABLE(sin + i + WIDTH);
            for (int head = 0; head < heads; head++) {
                NAMED(halves)(x + head * rows->from_head + i, y + head * rows->to_head + i, pairs,
                              EVENS(c1, c2), ODDS(c1, c2), EVENS(s1, s2), ODDS(s1, s2), back);
            }
        }
        for (; i < whole; i += WIDTH) {
            const V c = LOAD_TABLE(cos + i), s = LOAD_TABLE(sin + i);
            const V less = back ? s : -s, more = back ? -s : s;
            for (int head = 0; head < heads; head++) {
                const T *from = x + head * rows->from_head;
                T *to = y + head * rows->to_head;
                if (interleaved && !SPLITS) {
                    V a = LOAD(from + 2 * i), b = LOAD(from + 2 * i + WIDTH);
                    STORE(to + 2 * i, a * LOWS(c, c) + SWAP(a) * LOWS(less, more));
                    STORE(to + 2 * i + WIDTH, b * HIGHS(c, c) + SWAP(b) * HIGHS(less, more));
                } else {
                    NAMED(read)(from, i, pairs, interleaved, &first, &second);
                    NAMED(block)(to, c, s, i, pairs, interleaved, back, first, second);
                }
            }
        }
        if (heads == 1 && last >= 0 && whole < pairs)
            NAMED(block)(y, LOAD_TABLE(cos + last), LOAD_TABLE(sin + last), last, pairs,
                         interleaved, back, last_first, last_second);
        if (heads == 1 && last < 0)
            for (int64_t i = 0; i < pairs; i++)
                NAMED(pair)(x, y, cos[i], back ? -sin[i] : sin[i], i, pairs, interleaved);
        x += rows->from_step, y += rows->to_step;
        cos += rows->table_step, sin += rows->table_step;
    }
}

INLINE void NAMED(some_heads)(const void *x, void *y, const void *cos, const void *sin,
                              const struct rows *rows, int interleaved, int back) {
    /* Constants in each call, so that the loops hold no branch. */
    if (rows->heads == 4) NAMED(rows)(x, y, cos, sin, rows, 4, interleaved, back);
    else if (rows->heads == 2) NAMED(rows)(x, y, cos, sin, rows, 2, interleaved, back);
    else NAMED(rows)(x, y, cos, sin, rows, 1, interleaved, back);
}

static void NAMED(rotate)(const void *x, void *y, const void *cos, const void *sin,
                        const struct rows *rows, int interleaved, int back) {
    if (interleaved && back) NAMED(some_heads)(x, y, cos, sin, rows, 1, 1);
    else if (interleaved) NAMED(some_heads)(x, y, cos, sin, rows, 1, 0);
    else if (back) NAMED(some_heads)(x, y, cos, sin, rows, 0, 1);
    else NAMED(some_heads)(x, y, cos, sin, rows, 0, 0);
}

#undef NAMED
#undef T
#undef A
#undef V
#undef WIDTH
#undef LOAD
#undef STORE
#undef LOAD_TABLE
#undef SPLIT
#undef JOIN
#undef SPLITS
#undef SWAP
#undef LOWS
#undef HIGHS
#undef EVENS
#undef ODDS
#undef FROM
#undef TO
