/* Products of small matrices in cache: C (+)= A B, A by broadcast, B and C by vectors of columns.

   A may have any steps between rows and between columns, negative ones too: a transpose, or a
   skew, costs nothing. B and C have padded rows, so that vectors may run over their ends.
   A and B may be words of two bfloat16, neighbours along the depth, whose products are exact and
   summed in float32: where the processor has those they take half the time. */

enum factors {
    NUMBERS,
    WORDS,
    /* Numbers of float32 as sums of three words, which hold all their bits. */
    THREE_WORDS
};

#if defined(__AVX512BF16__) && IS_FLOAT
#define HAS_PAIRS 1
INLINE vr multiply_pairs(vr sum, const REAL *left, vr right) {
    int32_t word;
    memcpy(&word, left, sizeof word);
    return (vr)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(word), (__m512bh)right);
}
#else
#define HAS_PAIRS 0
INLINE vr multiply_pairs(vr sum, const REAL *left, vr right) {
    return (void)left, (void)right, sum;
}
#endif

#if defined(__AVX512F__)
enum { STRIP = 6, PANEL = 4 };
#elif defined(__AVX2__)
enum { STRIP = 6, PANEL = 2 };
#else
enum { STRIP = 6, PANEL = 2 };
#endif

INLINE void block(const enum factors kind, const int rows, const int vectors, int64_t depth,
                  const REAL *a, int64_t a_row, int64_t a_column, const REAL *b, int64_t b_row,
                  REAL *c, int64_t c_row, int add) {
    vr sum[STRIP][PANEL];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++) sum[r][n] = (vr){0};
    for (int64_t k = 0; k < depth; k++) {
        vr right[PANEL];
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++) right[n] = get(b + n * WIDE);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const REAL *left = a + r * a_row;
#pragma GCC unroll 4
            for (int n = 0; n < vectors; n++)
                sum[r][n] = kind == WORDS ? multiply_pairs(sum[r][n], left, right[n])
                                          : sum[r][n] + all(*left) * right[n];
        }
        a += a_column;
        b += b_row;
    }
    /* What was there comes last: compilers would spill sums that begin with it or with 0. */
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++) {
            REAL *to = c + r * c_row + n * WIDE;
            put(to, add ? get(to) + sum[r][n] : sum[r][n]);
        }
}

#define BLOCK(kind, rows, vectors)                                                             \
    static void block_##kind##_##rows##_##vectors(int64_t depth, const REAL *a, int64_t a_row, \
                                                  int64_t a_column, const REAL *b,             \
                                                  int64_t b_row, REAL *c, int64_t c_row,       \
                                                  int add) {                                   \
        block(kind, rows, vectors, depth, a, a_row, a_column, b, b_row, c, c_row, add);        \
    }
#define NAME(kind, rows, vectors) block_##kind##_##rows##_##vectors
#define ROW_OF_BLOCKS(kind, rows) \
    BLOCK(kind, rows, 1) BLOCK(kind, rows, 2) BLOCK_3_4(kind, rows)
#define ROW_OF_NAMES(kind, rows) \
    {NAME(kind, rows, 1), NAME(kind, rows, 2), NAMES_3_4(kind, rows)}
#if defined(__AVX512F__)
#define BLOCK_3_4(kind, rows) BLOCK(kind, rows, 3) BLOCK(kind, rows, 4)
#define NAMES_3_4(kind, rows) NAME(kind, rows, 3), NAME(kind, rows, 4)
#else
#define BLOCK_3_4(kind, rows)
#define NAMES_3_4(kind, rows)
#endif
#define ALL_BLOCKS(kind)                                                     \
    ROW_OF_BLOCKS(kind, 1) ROW_OF_BLOCKS(kind, 2) ROW_OF_BLOCKS(kind, 3)   \
    ROW_OF_BLOCKS(kind, 4) ROW_OF_BLOCKS(kind, 5) ROW_OF_BLOCKS(kind, 6)
#define ALL_NAMES(kind)                                                          \
    {                                                                             \
        ROW_OF_NAMES(kind, 1), ROW_OF_NAMES(kind, 2), ROW_OF_NAMES(kind, 3),   \
            ROW_OF_NAMES(kind, 4), ROW_OF_NAMES(kind, 5), ROW_OF_NAMES(kind, 6) \
    }

typedef void block_function(int64_t, const REAL *, int64_t, int64_t, const REAL *, int64_t, REAL *,
                            int64_t, int);
ALL_BLOCKS(NUMBERS)
#if HAS_PAIRS
ALL_BLOCKS(WORDS)
static block_function *const blocks[][STRIP][PANEL] = {ALL_NAMES(NUMBERS), ALL_NAMES(WORDS)};
#else
static block_function *const blocks[][STRIP][PANEL] = {ALL_NAMES(NUMBERS)};
#endif

/* One strip of at most STRIP rows, with as many vectors of columns as `columns` need. */
static void strip(enum factors kind, int64_t rows, int64_t columns, int64_t depth, const REAL *a,
                  int64_t a_row, int64_t a_column, const REAL *b, int64_t b_row, REAL *c,
                  int64_t c_row, int add) {
    int64_t left = (columns + WIDE - 1) / WIDE;
    for (int64_t panels = (left + PANEL - 1) / PANEL; panels > 0; panels--) {
        int64_t vectors = (left + panels - 1) / panels;
        blocks[kind][rows - 1][vectors - 1](depth, a, a_row, a_column, b, b_row, c, c_row, add);
        b += vectors * WIDE;
        c += vectors * WIDE;
        left -= vectors;
    }
}

/* A band of a tile: of row r the columns r + first .. r + last. */
struct band {
    int64_t first, last;
};

INLINE struct band transposed(struct band x) { return (struct band){-x.last, -x.first}; }

/* Of a strip of rows, the columns from .. to that its band leaves, out of `columns`. */
INLINE void spanned(struct band band, int64_t row, int64_t rows, int64_t columns, int64_t *from,
                    int64_t *to) {
    *from = most(0, row + band.first);
    *to = least(columns, row + rows + band.last);
    if (*to < *from) *to = *from;
}

/* Rows that are multiplied together: those of two squares, or of a strip. */
INLINE int64_t rows_at_once(enum factors kind) {
    return HAS_MATRIX && kind == WORDS ? 2 * SIDE : STRIP;
}

/* C (+)= A B for some rows. Of words what fills squares goes to the matrix unit, where there is one. */
static void rows_product(enum factors kind, int64_t rows, int64_t columns, int64_t depth,
                         const REAL *a, int64_t a_row, const REAL *b, int64_t b_row, REAL *c,
                         int64_t c_row, int add) {
    int64_t squares = HAS_MATRIX && kind == WORDS ? depth / SIDE * SIDE : 0;
    if (squares) {
        multiply_squares(rows, padded(columns), squares, a, a_row, b, b_row, c, c_row, add);
        if (squares == depth) return;
        a += squares, b += squares * b_row, depth -= squares, add = 1;
    }
    for (int64_t r = 0; r < rows; r += STRIP)
        strip(kind, least(STRIP, rows - r), columns, depth, a + r * a_row, a_row, 1, b, b_row,
              c + r * c_row, c_row, add);
}

/* C = A B where the band of C is wanted; B is (depth, columns). */
static void product(enum factors kind, int64_t rows, int64_t columns, int64_t depth,
                    struct band band, const REAL *a, int64_t a_row, const REAL *b, int64_t b_row,
                    REAL *c, int64_t c_row) {
    for (int64_t r = 0; r < rows; r += rows_at_once(kind)) {
        int64_t count = least(rows_at_once(kind), rows - r), from, to;
        spanned(band, r, count, columns, &from, &to);
        if (to <= from) continue;
        from = from / WIDE * WIDE;
        rows_product(kind, count, to - from, depth, a + r * a_row, a_row, b + from, b_row,
                     c + r * c_row + from, c_row, 0);
    }
}

/* C += A B where A is zero outside the band of A, by strips of `height` rows. The depth is that of
   the band, of words too. */
static void product_add(enum factors kind, int64_t height, int64_t rows, int64_t columns,
                        int64_t depth, struct band band, const REAL *a, int64_t a_row,
                        int64_t a_column, const REAL *b, int64_t b_row, REAL *c, int64_t c_row) {
    for (int64_t r = 0; r < rows; r += height) {
        int64_t count = least(height, rows - r), from, to;
        spanned(band, r, count, depth, &from, &to);
        if (to <= from) continue;
        if (kind == WORDS) from = from / 2, to = (to + 1) / 2;
        strip(kind, count, columns, to - from, a + r * a_row + from * a_column, a_row, a_column,
                  b + from * b_row, b_row, c + r * c_row, c_row, 1);
    }
}

/* The same of words whose rows lie next to each other, by squares where the matrix unit is. */
static void words_add(int64_t rows, int64_t columns, int64_t depth, struct band band, const REAL *a,
                      int64_t a_row, const REAL *b, int64_t b_row, REAL *c, int64_t c_row) {
    const int64_t words = (depth + 1) / 2;
    for (int64_t r = 0; r < rows; r += 2 * SIDE) {
        int64_t count = least(2 * SIDE, rows - r), from, to;
        spanned(band, r, count, depth, &from, &to);
        if (to <= from) continue;
        /* Whole squares of zeros beside the band, as far as B goes. */
        from = from / 2 / SIDE * SIDE;
        to = least(words, from + ((to + 1) / 2 - from + SIDE - 1) / SIDE * SIDE);
        rows_product(WORDS, count, columns, to - from, a + r * a_row + from, a_row,
                     b + from * b_row, b_row, c + r * c_row, c_row, 1);
    }
}
