/* Memory of one worker, out of what Python gave; and tables of vectors in it. */

/* The next `count` numbers of the scratch, which only counts while its address is not known. */
static REAL *take(uintptr_t *memory, int64_t count) {
    REAL *x = (REAL *)*memory;
    *memory += (uintptr_t)(count * (int64_t)sizeof(REAL) + 63) / 64 * 64;
    return x;
}

/* A tile, and zeros around it once `clear` was there. */
static REAL *take_tile(uintptr_t *memory) {
    uintptr_t edge = (MARGIN * PITCH + EDGE) * sizeof(REAL), start = *memory;
    take(memory, (TILE + 2 * MARGIN) * PITCH);
    return (REAL *)(start + edge);
}

static void clear(REAL *tile) {
    memset(tile - MARGIN * PITCH - EDGE, 0, (TILE + 2 * MARGIN) * PITCH * sizeof(REAL));
}

static REAL *take_columns(uintptr_t *memory, const struct pe_gather *table, int64_t width) {
    return table->weight ? take(memory, width * pitch_of(table->rows)) : 0;
}

static const REAL *table_of(const struct pe_gather *x, int64_t head, int64_t width) {
    return (const REAL *)x->weight + (x->heads == 1 ? 0 : head) * x->rows * width;
}

static void transpose_table(const struct pe_gather *x, int64_t head, int64_t width, REAL *to) {
    if (!x->weight) return;
    const REAL *from = table_of(x, head, width);
    int64_t pitch = pitch_of(x->rows);
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t c = 0; c < width; c++) to[c * pitch + r] = from[r * width + c];
}
