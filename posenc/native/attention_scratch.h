/* Memory of one worker, out of what Python gave; and tables of vectors in it. */

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
/* Between two buffers nobody may read or write, which the sanitizer sees. */
enum { GAP = 64 };
#else
#define ASAN_POISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(start, bytes) ((void)(start), (void)(bytes))
enum { GAP = 0 };
#endif

/* Scratch from `start` on, of which `used` bytes are taken; without a start they are only counted. */
struct scratch {
    char *start;
    int64_t used;
};

static void *take_bytes(struct scratch *memory, int64_t bytes) {
    char *x = memory->start ? memory->start + memory->used : 0;
    int64_t rounded = (bytes + 63) / 64 * 64;
    if (x && GAP) ASAN_POISON_MEMORY_REGION(x + rounded, GAP);
    memory->used += rounded + GAP;
    return x;
}

static REAL *take(struct scratch *memory, int64_t count) {
    return take_bytes(memory, count * (int64_t)sizeof(REAL));
}

/* A tile, and zeros around it once `clear` was there. */
static REAL *take_tile(struct scratch *memory) {
    REAL *x = take(memory, (TILE + 2 * MARGIN) * PITCH);
    return x ? x + MARGIN * PITCH + EDGE : 0;
}

static void clear(REAL *tile) {
    memset(tile - MARGIN * PITCH - EDGE, 0, (TILE + 2 * MARGIN) * PITCH * sizeof(REAL));
}

/* A transposed table: of numbers, or of up to three words for two of them, by squares of which its ends
   have one each. */
static REAL *take_columns(struct scratch *memory, const struct pe_table *table, int64_t width) {
    if (!table->weight) return 0;
    int64_t squares = (table->rows + SIDE - 1) / SIDE + 2;
    return take(memory, HAS_MATRIX ? (width + 1) / 2 * 3 * squares * SIDE
                                   : width * pitch_of(table->rows));
}

static const REAL *table_of(const struct pe_table *x, int64_t head, int64_t width) {
    return (const REAL *)x->weight + (x->heads == 1 ? 0 : head) * x->rows * width;
}

/* Whether a head's table of vectors holds no NaN and no infinity, or is not there. */
static int finite_table(const struct pe_table *x, int64_t head, int64_t width) {
    return !x->weight || all_finite(table_of(x, head, width), x->rows * width);
}
