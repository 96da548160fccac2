/* Beyond the ends of its table a table of vectors adds the same to all keys of a query, or to all
   queries of a key: one product for each token and end. */

/* x . y of padded rows. */
static REAL dot(const REAL *x, const REAL *y, int64_t width) {
    vr sum = {0};
    for (int64_t c = 0; c < width; c += WIDE) sum += get(x + c) * get(y + c);
    return sum_of(sum);
}

/* An end of a table, padded: side 0 its first row, 1 its last. */
static const REAL *end_of(const struct pe_table *x, int64_t h, int64_t width, int64_t side,
                          REAL *buffer) {
    copy_slice(table_of(x, h, width) + side * (x->rows - 1) * width, 1, width, 0, 1, buffer);
    return buffer;
}

/* far[side, i] = x[i] . an end of the table, of `count` padded rows. */
static void far_products(const struct pe_table *table, int64_t h, int64_t width, const REAL *x,
                         int64_t count, REAL *far, int64_t far_step, REAL *buffer) {
    if (!table->weight) return;
    int64_t pitch = pitch_of(width);
    for (int64_t side = 0; side < 2; side++) {
        const REAL *end = end_of(table, h, width, side, buffer);
        for (int64_t i = 0; i < count; i++)
            far[side * far_step + i] = dot(x + i * pitch, end, pitch);
    }
}

static REAL *grad_of(const struct pe_table *x, int64_t slot, int64_t h, int64_t width) {
    return (REAL *)x->grad + (slot * x->heads + (x->heads == 1 ? 0 : h)) * x->rows * width;
}

/* Of rows x whose weights at a far end sum to far_sum[side, i]: to[i] += sum * end, where there is
   such a tensor, and grad of the end += factor * sum * x[i]. */
static void far_gradients(const struct pe_table *table, int64_t slot, int64_t h, int64_t width,
                          const REAL *x, int64_t count, const REAL *far_sum, int64_t far_step,
                          REAL factor, REAL *to) {
    if (!table->weight) return;
    int64_t pitch = pitch_of(width);
    for (int64_t side = 0; side < 2; side++) {
        int64_t row = side * (table->rows - 1) * width;
        const REAL *end = table_of(table, h, width) + row;
        for (int64_t i = 0; i < count; i++) {
            REAL sum = far_sum[side * far_step + i];
            if (to) add_row(to + i * pitch, sum, end, width);
            if (table->grad)
                add_row(grad_of(table, slot, h, width) + row, sum * factor, x + i * pitch, width);
        }
    }
}
