/* Products of words of two bfloat16 by the processor's matrix unit (AMX): one instruction multiplies
   16 rows of 16 words with 16 words of 16 columns, and sums in float32.

   Eight registers hold such squares: four of C, two by two, beside two of A and two of B. */

#if (defined(__AMX_BF16__) || defined(PE_MATRIX_IN_C)) && IS_FLOAT
#define HAS_MATRIX 1
#else
#define HAS_MATRIX 0
#endif

/* Rows, columns and words of a square. */
enum { SIDE = 16 };

#if HAS_MATRIX && !defined(PE_MATRIX_IN_C)
/* Some compilers do not see that these read and write memory. */
#define SETTLED() __asm__ volatile("" ::: "memory")
#define SQUARE_ZERO(n) _tile_zero(n)
#define SQUARE_LOAD(n, x, row) _tile_loadd(n, x, (row) * (int64_t)sizeof(REAL))
#define SQUARE_STORE(n, x, row) _tile_stored(n, x, (row) * (int64_t)sizeof(REAL))
#define SQUARE_MULTIPLY(sum, a, b) _tile_dpbf16ps(sum, a, b)

/* How the registers of this thread were cut. */
struct matrix_unit {
    _Alignas(64) uint8_t before[64];
};

/* Cuts all registers into squares, until the end: others of this thread, as the libraries of torch,
   may count on how they had cut them. */
static void matrix_begin(struct matrix_unit *unit) {
    static const struct {
        uint8_t palette, start, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } squares = {.palette = 1,
                 .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                 .rows = {SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE, SIDE}};
    _tile_storeconfig(unit->before);
    _tile_loadconfig(&squares);
}

static void matrix_end(const struct matrix_unit *unit) {
    SETTLED();
    _tile_loadconfig(unit->before);
}

/* The unit sleeps after some 900 cycles without a product, and the next waits as long again: work by
   vectors that comes between gives it one to nowhere. Between products registers hold nothing. */
INLINE void keep_awake(void) { SQUARE_MULTIPLY(7, 6, 5); }
#else
struct matrix_unit {
    int none;
};
INLINE void matrix_begin(struct matrix_unit *unit) { unit->none = 0; }
INLINE void matrix_end(const struct matrix_unit *unit) { (void)unit; }
INLINE void keep_awake(void) {}
#endif

#if HAS_MATRIX && defined(PE_MATRIX_IN_C)
/* The same in C: sanitizers see it, on any machine. */
static _Thread_local REAL squares[8][SIDE][SIDE];
#define SETTLED() ((void)0)
#define SQUARE_ZERO(n) memset(squares[n], 0, sizeof squares[n])
#define SQUARE_LOAD(n, x, row) square_copy(squares[n][0], SIDE, x, row)
#define SQUARE_STORE(n, x, row) square_copy(x, row, squares[n][0], SIDE)
#define SQUARE_MULTIPLY(sum, a, b) square_multiply(squares[sum], squares[a], squares[b])

static void square_copy(REAL *to, int64_t to_row, const REAL *from, int64_t from_row) {
    for (int64_t r = 0; r < SIDE; r++)
        memcpy(to + r * to_row, from + r * from_row, SIDE * sizeof(REAL));
}

static void square_multiply(REAL (*sum)[SIDE], REAL (*a)[SIDE], REAL (*b)[SIDE]) {
    for (int r = 0; r < SIDE; r++)
        for (int k = 0; k < SIDE; k++)
            for (int c = 0; c < SIDE; c++) {
                uint16_t left[2], right[2];
                memcpy(left, &a[r][k], sizeof left);
                memcpy(right, &b[k][c], sizeof right);
                sum[r][c] += from_bf16(left[0]) * from_bf16(right[0]);
                sum[r][c] += from_bf16(left[1]) * from_bf16(right[1]);
            }
}
#endif

#if HAS_MATRIX
/* C (+)= A B for `down` by `across` squares of C, 1 or 2 each. */
INLINE void few_squares(const int down, const int across, int64_t depth, const REAL *a, int64_t a_row,
                        const REAL *b, int64_t b_row, REAL *c, int64_t c_row, int add) {
    const REAL *a_below = a + SIDE * a_row;
    REAL *c_below = c + SIDE * c_row;
    SETTLED();
    if (add) {
        SQUARE_LOAD(0, c, c_row);
        if (across > 1) SQUARE_LOAD(1, c + SIDE, c_row);
        if (down > 1) SQUARE_LOAD(2, c_below, c_row);
        if (down > 1 && across > 1) SQUARE_LOAD(3, c_below + SIDE, c_row);
    } else {
        SQUARE_ZERO(0);
        SQUARE_ZERO(1);
        SQUARE_ZERO(2);
        SQUARE_ZERO(3);
    }
    for (int64_t k = 0; k < depth; k += SIDE, b += SIDE * b_row) {
        SQUARE_LOAD(4, a + k, a_row);
        SQUARE_LOAD(6, b, b_row);
        SQUARE_MULTIPLY(0, 4, 6);
        if (across > 1) {
            SQUARE_LOAD(7, b + SIDE, b_row);
            SQUARE_MULTIPLY(1, 4, 7);
        }
        if (down > 1) {
            SQUARE_LOAD(5, a_below + k, a_row);
            SQUARE_MULTIPLY(2, 5, 6);
            if (across > 1) SQUARE_MULTIPLY(3, 5, 7);
        }
    }
    SQUARE_STORE(0, c, c_row);
    if (across > 1) SQUARE_STORE(1, c + SIDE, c_row);
    if (down > 1) SQUARE_STORE(2, c_below, c_row);
    if (down > 1 && across > 1) SQUARE_STORE(3, c_below + SIDE, c_row);
    SETTLED();
}

/* The same where fewer than SIDE rows of C are to change; A has memory for all. */
static void cut_square(int64_t rows, int64_t depth, const REAL *a, int64_t a_row, const REAL *b,
                       int64_t b_row, REAL *c, int64_t c_row, int add) {
    REAL whole[SIDE * SIDE];
    few_squares(1, 1, depth, a, a_row, b, b_row, whole, SIDE, 0);
    for (int64_t r = 0; r < rows; r++, c += c_row) {
        vr x = get(whole + r * SIDE);
        put(c, add ? get(c) + x : x);
    }
}

/* The same for all columns of one or two rows of squares. */
INLINE void row_of_squares(const int down, int64_t columns, int64_t depth, const REAL *a,
                           int64_t a_row, const REAL *b, int64_t b_row, REAL *c, int64_t c_row,
                           int add) {
    for (; columns > SIDE; columns -= 2 * SIDE, b += 2 * SIDE, c += 2 * SIDE)
        few_squares(down, 2, depth, a, a_row, b, b_row, c, c_row, add);
    if (columns) few_squares(down, 1, depth, a, a_row, b, b_row, c, c_row, add);
}

/* C (+)= A B by squares: of any rows, of columns and a depth that are multiples of SIDE. A has memory
   for whole squares, whatever it holds there. */
static void multiply_squares(int64_t rows, int64_t columns, int64_t depth, const REAL *a,
                             int64_t a_row, const REAL *b, int64_t b_row, REAL *c, int64_t c_row,
                             int add) {
    for (; rows >= 2 * SIDE; rows -= 2 * SIDE, a += 2 * SIDE * a_row, c += 2 * SIDE * c_row)
        row_of_squares(2, columns, depth, a, a_row, b, b_row, c, c_row, add);
    if (rows >= SIDE) {
        row_of_squares(1, columns, depth, a, a_row, b, b_row, c, c_row, add);
        rows -= SIDE, a += SIDE * a_row, c += SIDE * c_row;
    }
    for (int64_t n = 0; rows && n < columns; n += SIDE)
        cut_square(rows, depth, a, a_row, b + n, b_row, c + n, c_row, add);
}
#else
INLINE void multiply_squares(int64_t rows, int64_t columns, int64_t depth, const REAL *a,
                             int64_t a_row, const REAL *b, int64_t b_row, REAL *c, int64_t c_row,
                             int add) {
    (void)rows, (void)columns, (void)depth, (void)a, (void)a_row, (void)b, (void)b_row;
    (void)c, (void)c_row, (void)add;
}
#endif
