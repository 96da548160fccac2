/* The scores of one row of a tile: content, and what does not depend on the vectors. */

/* Table and slopes of head h on a meeting's distances, in units of log 16: bias[t],
   t = j - i + rows - 1. Returns whether there are any. */
static int fill_bias(const struct pe_attention *p, const struct meeting *m, int64_t h, REAL *bias) {
    if (!p->table.weight && !p->past) return 0;
    int64_t first = m->distance - (m->rows - 1);
    const REAL *table = p->table.weight;
    if (table) table += p->table.heads == 1 ? 0 : h * p->table.rows;
    for (int64_t t = 0; t < m->rows - 1 + TILE; t++) {
        int64_t distance = first + t;
        double x = table ? (double)table[clamped(distance + p->table.zero, p->table.rows)] : 0.0;
        if (p->past) x += (double)distance * (distance <= 0 ? p->past[h] : -p->future[h]);
        bias[t] = (REAL)(x * LOG16E);
    }
    return 1;
}

/* x in units of log 16, as a number and what is lost of it: offsets of a row and of a key may be large
   and cancel, and their differences matter. */
INLINE void split(double x, REAL *high, REAL *low) {
    *high = (REAL)(x * LOG16E);
    double rest = x * LOG16E - (double)*high;
    *low = isfinite(rest) ? (REAL)rest : 0;
}

/* What a key adds in every row, in two parts. Returns whether there is any. */
static int fill_offsets(const struct pe_attention *p, const struct tile *k, int64_t b, int64_t h,
                        REAL *beside, REAL *rest) {
    for (int64_t j = 0; j < TILE; j++) beside[j] = rest[j] = 0;
    if (!p->k_offset) return 0;
    const double *x = p->k_offset + b * p->k_offset_step + h * p->keys + k->start;
    for (int64_t j = 0; j < k->count; j++) split(x[j], beside + j, rest + j);
    return 1;
}

/* What row i adds in every key, and `more`, which is no offset. */
INLINE void offset_of(const struct pe_attention *p, int64_t b, int64_t h, int64_t i, REAL more,
                      REAL own[2]) {
    own[0] = own[1] = 0;
    if (p->q_offset) split(p->q_offset[b * p->q_offset_step + h * p->queries + i], own, own + 1);
    own[1] += more;
}

/* Of a row of a tile the columns that are seen, from .. to, and the vectors that hold them. */
struct seen {
    int masked;
    int64_t from, to, first, end;
};

INLINE struct seen seen_of(int64_t from, int64_t to) {
    int masked = from > 0 || to < TILE;
    from = most(from, 0), to = least(to, TILE);
    int64_t first = from / WIDE, end = to > from ? (to + WIDE - 1) / WIDE : first;
    return (struct seen){masked, from, to, first, end};
}

/* s = scale * content + bias + beside + row, -inf where it is not seen, in units of log 16. Beside and
   row come in two parts each, of which the large ones meet first. */
INLINE void scores_of_row(const int plain, const int masked, const REAL *content, REAL scale,
                          const REAL *bias, const REAL *beside, const REAL *rest,
                          const REAL row[2], const struct seen *seen, vr *s) {
    const int64_t vectors = TILE / WIDE;
#pragma GCC unroll 16
    for (int64_t n = 0; n < vectors; n++) {
        if (masked && (n < seen->first || n >= seen->end)) {
            s[n] = all(-INFINITY);
            continue;
        }
        s[n] = get(content + n * WIDE) * scale + get(bias + n * WIDE);
        if (!plain)
            s[n] += (get(beside + n * WIDE) + row[0]) + (get(rest + n * WIDE) + row[1]);
        if (masked) s[n] = hidden_but(lanes_in(n, seen->from, seen->to), s[n]);
    }
}

/* The same where neither is known beforehand. */
INLINE void scores_of_any_row(int plain, const REAL *content, REAL scale, const REAL *bias,
                              const REAL *beside, const REAL *rest, const REAL row[2],
                              const struct seen *seen, vr *s) {
    if (plain && !seen->masked)
        scores_of_row(1, 0, content, scale, bias, beside, rest, row, seen, s);
    else if (plain)
        scores_of_row(1, 1, content, scale, bias, beside, rest, row, seen, s);
    else if (!seen->masked)
        scores_of_row(0, 0, content, scale, bias, beside, rest, row, seen, s);
    else
        scores_of_row(0, 1, content, scale, bias, beside, rest, row, seen, s);
}

static REAL sum_of_row(const REAL *row) {
    vr total = {0};
    for (int64_t n = 0; n < TILE; n += WIDE) total += get(row + n);
    return sum_of(total);
}
