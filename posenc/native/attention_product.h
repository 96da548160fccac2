/* Products of small matrices in cache: C (+)= A B, A by broadcast, B and C by vectors of columns.

   A may have any steps between rows and between columns, negative ones too: a transpose, or a
   skew, costs nothing. B and C have padded rows, so that vectors may run over their ends. */

#if defined(__AVX512F__)
enum { STRIP = 6, PANEL = 4 };
#elif defined(__AVX2__)
enum { STRIP = 6, PANEL = 2 };
#else
enum { STRIP = 6, PANEL = 2 };
#endif

INLINE void block(const int rows, const int vectors, int64_t depth, const REAL *a, int64_t a_row,
                  int64_t a_column, const REAL *b, int64_t b_row, REAL *c, int64_t c_row, int add) {
    vr sum[STRIP][PANEL];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++)
            sum[r][n] = add ? get(c + r * c_row + n * WIDE) : (vr){0};
    for (int64_t k = 0; k < depth; k++) {
        vr right[PANEL];
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++) right[n] = get(b + n * WIDE);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            vr left = all(a[r * a_row]);
#pragma GCC unroll 4
            for (int n = 0; n < vectors; n++) sum[r][n] += left * right[n];
        }
        a += a_column;
        b += b_row;
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int n = 0; n < vectors; n++) put(c + r * c_row + n * WIDE, sum[r][n]);
}

#define BLOCK(rows, vectors)                                                                    \
    static void block_##rows##_##vectors(int64_t depth, const REAL *a, int64_t a_row,           \
                                         int64_t a_column, const REAL *b, int64_t b_row, REAL *c, \
                                         int64_t c_row, int add) {                              \
        block(rows, vectors, depth, a, a_row, a_column, b, b_row, c, c_row, add);               \
    }
#define ROW_OF_BLOCKS(rows) BLOCK(rows, 1) BLOCK(rows, 2) BLOCK_3_4(rows)
#define ROW_OF_NAMES(rows) {block_##rows##_1, block_##rows##_2, NAMES_3_4(rows)}
#if defined(__AVX512F__)
#define BLOCK_3_4(rows) BLOCK(rows, 3) BLOCK(rows, 4)
#define NAMES_3_4(rows) block_##rows##_3, block_##rows##_4
#else
#define BLOCK_3_4(rows)
#define NAMES_3_4(rows)
#endif
ROW_OF_BLOCKS(1)
ROW_OF_BLOCKS(2)
ROW_OF_BLOCKS(3)
ROW_OF_BLOCKS(4)
ROW_OF_BLOCKS(5)
ROW_OF_BLOCKS(6)

typedef void block_function(int64_t, const REAL *, int64_t, int64_t, const REAL *, int64_t, REAL *,
                            int64_t, int);
static block_function *const blocks[STRIP][PANEL] = {
    ROW_OF_NAMES(1), ROW_OF_NAMES(2), ROW_OF_NAMES(3),
    ROW_OF_NAMES(4), ROW_OF_NAMES(5), ROW_OF_NAMES(6),
};

/* One strip of at most STRIP rows, with as many vectors of columns as `columns` need. */
static void strip(int64_t rows, int64_t columns, int64_t depth, const REAL *a, int64_t a_row,
                  int64_t a_column, const REAL *b, int64_t b_row, REAL *c, int64_t c_row, int add) {
    int64_t left = (columns + WIDE - 1) / WIDE;
    for (int64_t panels = (left + PANEL - 1) / PANEL; panels > 0; panels--) {
        int64_t vectors = (left + panels - 1) / panels;
        blocks[rows - 1][vectors - 1](depth, a, a_row, a_column, b, b_row, c, c_row, add);
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

/* C = A B where the band of C is wanted; B is (depth, columns). */
static void product(int64_t rows, int64_t columns, int64_t depth, struct band band, const REAL *a,
                    int64_t a_row, const REAL *b, int64_t b_row, REAL *c, int64_t c_row) {
    for (int64_t r = 0; r < rows; r += STRIP) {
        int64_t count = least(STRIP, rows - r), from, to;
        spanned(band, r, count, columns, &from, &to);
        if (to <= from) continue;
        from = from / WIDE * WIDE;
        strip(count, to - from, depth, a + r * a_row, a_row, 1, b + from, b_row,
              c + r * c_row + from, c_row, 0);
    }
}

/* C += A B where A is zero outside the band of A, by strips of `height` rows. */
static void product_add(int64_t height, int64_t rows, int64_t columns, int64_t depth, struct band band,
                        const REAL *a, int64_t a_row, int64_t a_column, const REAL *b,
                        int64_t b_row, REAL *c, int64_t c_row) {
    for (int64_t r = 0; r < rows; r += height) {
        int64_t count = least(height, rows - r), from, to;
        spanned(band, r, count, depth, &from, &to);
        if (to > from)
            strip(count, columns, to - from, a + r * a_row + from * a_column, a_row, a_column,
                  b + from * b_row, b_row, c + r * c_row, c_row, 1);
    }
}
