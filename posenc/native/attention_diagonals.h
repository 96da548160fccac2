/* Sums along the diagonals of a tile, where a distance is: what a table by distance learns from. */

/* sums[t - first] for each diagonal t of the band, vectors at a time. */
static void sum_diagonals(const struct meeting *m, const REAL *tile, REAL *sums) {
    int64_t first = m->band.first + m->rows - 1, end = m->band.last + m->rows;
    for (int64_t t = first; t < end; t += WIDE) {
        int64_t shift = t - (m->rows - 1);
        int64_t from = most(0, 1 - WIDE - shift), to = least(m->rows, m->columns - shift);
        vr sum = {0}, other = {0};
        int64_t i = from;
        for (; i + 1 < to; i += 2) {
            sum += get(tile + i * (PITCH + 1) + shift);
            other += get(tile + (i + 1) * (PITCH + 1) + shift);
        }
        if (i < to) sum += get(tile + i * (PITCH + 1) + shift);
        put(sums + t - first, sum + other);
    }
}
