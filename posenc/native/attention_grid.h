/* A number for each difference of rows and columns, read by the difference of two indices.

   Keys that follow each other in a row of the grid have indices that rise by 1, so that a query reads
   a run of them from consecutive numbers of the table. What lies beyond the table reads its end. */

struct grid {
    /* A head's table in units of log 16, its ends repeated by WIDE on both sides. */
    REAL *table;
    /* Runs of a meeting's keys, of at most WIDE: first column, and the index there plus `zero`. */
    int64_t first[TILE + 1], index[TILE], runs;
    /* The bias of a row with what the grid adds; stores of the last run go beyond the tile. */
    REAL *line;
};

static void grid_scratch(const struct pe_attention *p, struct scratch *memory, struct grid *g) {
    const struct pe_table *x = &p->grid.table;
    g->table = take(memory, x->weight ? x->rows + 2 * WIDE : 0);
    g->line = take(memory, x->weight ? TILE + WIDE : 0);
}

static void grid_head(const struct pe_attention *p, struct grid *g, int64_t h) {
    const struct pe_table *x = &p->grid.table;
    if (!x->weight) return;
    const REAL *from = table_of(x, h, 1);
    for (int64_t n = 0; n < x->rows + 2 * WIDE; n++)
        g->table[n] = from[clamped(n - WIDE, x->rows)] * (REAL)LOG16E;
}

/* The runs of the keys of a meeting. */
static void grid_meet(const struct pe_attention *p, struct grid *g, const struct meeting *m,
                      const struct tile *k, int64_t b) {
    if (!p->grid.table.weight) return;
    const int64_t *index = p->grid.k_index + b * p->grid.k_index_step + k->start;
    g->runs = 0;
    for (int64_t j = 0; j < m->columns; j++) {
        int64_t last = g->runs - 1;
        if (j && index[j] == index[j - 1] + 1 && j - g->first[last] < WIDE) continue;
        g->first[g->runs] = j;
        g->index[g->runs++] = index[j] + p->grid.table.zero;
    }
    g->first[g->runs] = m->columns;
}

INLINE int64_t grid_query(const struct pe_attention *p, const struct tile *q, int64_t b, int64_t i) {
    return p->grid.q_index[b * p->grid.q_index_step + q->start + i];
}

/* bias + what the grid adds to row i, in units of log 16. */
static const REAL *grid_row(const struct pe_attention *p, struct grid *g, const struct tile *q,
                            int64_t b, int64_t i, const REAL *bias) {
    if (!p->grid.table.weight) return bias;
    int64_t own = grid_query(p, q, b, i), rows = p->grid.table.rows;
    for (int64_t r = 0; r < g->runs; r++) {
        int64_t at = least(most(g->index[r] - own, -WIDE), rows);
        put(g->line + g->first[r], get(g->table + WIDE + at));
    }
    for (int64_t j = 0; j < TILE; j += WIDE) put(g->line + j, get(g->line + j) + get(bias + j));
    return g->line;
}

/* What the gradients of a meeting's scores give to the table. */
static void grid_gradients(const struct pe_attention *p, const struct grid *g, int64_t slot,
                           const struct meeting *m, const struct tile *q, int64_t b, int64_t h,
                           const REAL *grads) {
    const struct pe_table *x = &p->grid.table;
    if (!x->grad) return;
    double *sums = (double *)x->grad + (slot * x->heads + (x->heads == 1 ? 0 : h)) * x->rows;
    for (int64_t i = 0; i < m->rows; i++, grads += PITCH) {
        int64_t own = grid_query(p, q, b, i);
        for (int64_t r = 0; r < g->runs; r++) {
            const REAL *from = grads + g->first[r];
            int64_t at = g->index[r] - own, count = g->first[r + 1] - g->first[r];
            if (at >= 0 && at + count <= x->rows)
                for (int64_t n = 0; n < count; n++) sums[at + n] += (double)from[n];
            else
                for (int64_t n = 0; n < count; n++) sums[clamped(at + n, x->rows)] += (double)from[n];
        }
    }
}
