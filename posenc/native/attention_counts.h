/* What a query adds to a key by how many keys stand between them that it picks out:

       gate[i, j]  = sigmoid(scale * content), 0 where j is not seen
       count[i, j] = sum of gate[i, t] over t >= j, by the places of the keys
       score[i, j] += by_count[i, count], interpolated, at most at the last step

   Keys are met from the last to the first, and each query carries its count along. Once that is
   beyond the last step the rest of its keys get one number, and their gates have no gradient. */

#define SHIFTED(a, b, ...) SHUFFLE2(a, b, vw, __VA_ARGS__)
#define RUN_2(n) (n), (n) + 1
#define RUN_4(n) RUN_2(n), RUN_2((n) + 2)
#define RUN_8(n) RUN_4(n), RUN_4((n) + 4)
#define RUN_16(n) RUN_8(n), RUN_8((n) + 8)
#if IS_FLOAT
#define VECTOR LANES
#else
#define VECTOR (LANES / 2)
#endif
#if LANES == 16 && IS_FLOAT
#define RUN RUN_16
#elif LANES == 16 || (LANES == 8 && IS_FLOAT)
#define RUN RUN_8
#elif LANES == 8 || IS_FLOAT
#define RUN RUN_4
#else
#define RUN RUN_2
#endif
enum { WIDTH = VECTOR };

/* Of each lane the sum from it to the last. */
INLINE vr sums_from(vr x) {
    const vr zero = {0};
    x += SHIFTED(x, zero, RUN(1));
#if VECTOR > 2
    x += SHIFTED(x, zero, RUN(2));
#endif
#if VECTOR > 4
    x += SHIFTED(x, zero, RUN(4));
#endif
#if VECTOR > 8
    x += SHIFTED(x, zero, RUN(8));
#endif
    return x;
}

/* Of each lane the sum from the first to it. */
INLINE vr sums_to(vr x) {
    const vr zero = {0};
    x += SHIFTED(zero, x, RUN(VECTOR - 1));
#if VECTOR > 2
    x += SHIFTED(zero, x, RUN(VECTOR - 2));
#endif
#if VECTOR > 4
    x += SHIFTED(zero, x, RUN(VECTOR - 4));
#endif
#if VECTOR > 8
    x += SHIFTED(zero, x, RUN(VECTOR - 8));
#endif
    return x;
}

/* x[at] of each lane, at < 2 * WIDTH. */
INLINE vr picked(const REAL *x, vw at) {
#if LANES == 16 && IS_FLOAT
    return (vr)_mm512_permutex2var_ps((__m512)get(x), (__m512i)at, (__m512)get(x + WIDTH));
#elif LANES == 16
    return (vr)_mm512_permutex2var_pd((__m512d)get(x), (__m512i)at, (__m512d)get(x + WIDTH));
#elif LANES == 8 && IS_FLOAT
    __m256 low = _mm256_permutevar8x32_ps((__m256)get(x), (__m256i)at);
    __m256 high = _mm256_permutevar8x32_ps((__m256)get(x + WIDTH), (__m256i)at);
    return (vr)_mm256_blendv_ps(low, high, (__m256)(at > WIDTH - 1));
#else
    vr y;
    for (int64_t n = 0; n < WIDTH; n++) y[n] = x[at[n]];
    return y;
#endif
}

/* Of a block of query tiles, kept by one worker. */
struct counting {
    /* by_count of each row, its last step repeated, so that vectors may read beyond it. */
    REAL *steps;
    /* Of each row the count of the keys that it has met. */
    double *count;
    /* Which row of the block a meeting's first is, in the backward pass. */
    int64_t row;
    /* Of each pair of a meeting, for its gradients: the step below its count, the share of the way
       to the next, the difference of the two, and the derivative of the gate. */
    WHOLE *below;
    REAL *share, *rise, *slope;
    /* Of each row, before each tile of keys, its count; the tiles after it came first. */
    double *before;
    /* Of each row the gradient of the counts of the keys that it met, and of each of its steps two
       sums: of gradients of scores, and of these times their share. */
    double *pull;
    REAL *sums;
};

INLINE int64_t steps_pitch(const struct pe_attention *p) {
    return padded(p->by_count_steps + 2 * WIDTH);
}

static void count_scratch(const struct pe_attention *p, struct scratch *memory, int64_t rows,
                          int64_t key_tiles, struct counting *c) {
    if (!p->by_count) return;
    c->steps = take(memory, rows * steps_pitch(p));
    c->count = take_bytes(memory, rows * (int64_t)sizeof(double));
    if (!p->backward) return;
    c->below = take_bytes(memory, TILE * TILE * (int64_t)sizeof(WHOLE));
    c->share = take(memory, TILE * TILE);
    c->rise = take(memory, TILE * TILE);
    c->slope = take(memory, TILE * TILE);
    c->before = take_bytes(memory, key_tiles * rows * (int64_t)sizeof(double));
    c->pull = take_bytes(memory, rows * (int64_t)sizeof(double));
    c->sums = take(memory, rows * 2 * p->by_count_steps);
}

/* Rows of the block `row` on, which begin to count, are the queries `start` on. */
static void start_counts(const struct pe_attention *p, struct counting *c, int64_t b, int64_t h,
                         int64_t start, int64_t row, int64_t rows) {
    int64_t steps = p->by_count_steps, pitch = steps_pitch(p);
    const REAL *from = (const REAL *)p->by_count + ((b * p->heads + h) * p->queries + start) * steps;
    for (int64_t i = row; i < row + rows; i++, from += steps) {
        REAL *to = c->steps + i * pitch;
        memcpy(to, from, (size_t)steps * sizeof(REAL));
        for (int64_t n = steps; n < pitch; n++) to[n] = from[steps - 1];
        c->count[i] = 0;
    }
}

/* exp(-x) of x in units of log 16, at most so large that the gate is a normal number. */
INLINE vr opposed(vr x) {
    return exp16_of(-greater(all((REAL)LOWEST / 4), x));
}

/* Whether a row's count is beyond the last step, so that all older keys are read there. */
INLINE int counted_out(const struct pe_attention *p, double count) {
    return count >= (double)(p->by_count_steps - 1);
}

/* Whether the counts of the first rows of a block all are: the order of their other keys is free. */
INLINE int all_counted_out(const struct pe_attention *p, const struct counting *c, int64_t rows) {
    int ended = 1;
    for (int64_t i = 0; i < rows; i++) ended = ended && counted_out(p, c->count[i]);
    return ended;
}

/* The count of a row after the keys of a tile that it sees, from .. to; content in units of log 16. */
static double count_after(const REAL *content, REAL scale, int64_t from, int64_t to, double count) {
    for (int64_t n = TILE / WIDTH - 1; n >= 0; n--) {
        vr gate = 1 / (1 + opposed(get(content + n * WIDTH) * scale));
        count += (double)sums_from(chosen(lanes_in(n, from, to), gate))[0];
    }
    return count;
}

/* The content of a row of a meeting, scaled, and what is added by its counts, in units of log 16.
   `at` is the row's place among what is kept for the gradients, below 0 where there are none. */
INLINE void count_row(const struct pe_attention *p, struct counting *c, const int learns,
                      int64_t row, int64_t at, int64_t from, int64_t to, REAL scale, REAL *content) {
    const REAL *steps = c->steps + row * steps_pitch(p), log16e = (REAL)LOG16E;
    const REAL last = (REAL)(p->by_count_steps - 1);
    double count = c->count[row];
    if (counted_out(p, count)) {
        REAL beyond = steps[p->by_count_steps - 1] * log16e;
        for (int64_t n = 0; n < TILE; n += WIDTH) put(content + n, get(content + n) * scale + beyond);
        return;
    }
    for (int64_t n = TILE / WIDTH - 1; n >= 0; n--) {
        vw seen = lanes_in(n, from, to);
        vr x = get(content + n * WIDTH) * scale, e = opposed(x), open = 1 / (1 + e);
        vr gate = chosen(seen, open), sums = sums_from(gate);
        /* NaN is no step, but stays in the share. */
        double floor = count >= (double)last ? (double)last : count > 0 ? (double)(int64_t)count : 0;
        int64_t base = (int64_t)floor;
        vr passed = sums + (REAL)(count - floor);
        passed = -greater(all((REAL)base - last), -passed);
        vw below = __builtin_convertvector(chosen((vw)(passed == passed), passed), vw) & (2 * WIDTH - 1);
        vr share = passed - __builtin_convertvector(below, vr);
        vr low = picked(steps + base, below);
        vr rise = picked(steps + base, (below - (vw)(share > 0)) & (2 * WIDTH - 1)) - low;
        put(content + n * WIDTH, x + (low + share * rise) * log16e);
        if (learns) {
            int64_t here = at * TILE + n * WIDTH;
            vw step = below + (WHOLE)base;
            memcpy(c->below + here, &step, sizeof step);
            put(c->share + here, share);
            put(c->rise + here, chosen(seen, rise));
            put(c->slope + here, chosen(seen, open * (e * open)));
        }
        count += (double)sums[0];
    }
    c->count[row] = count;
}

/* The scores of a meeting out of its content. */
static void add_counts(const struct pe_attention *p, struct counting *c, const struct meeting *m,
                       int64_t row, REAL *scores) {
    for (int64_t i = 0; i < m->rows; i++) {
        int64_t from = i + m->band.first, to = least(i + m->band.last + 1, m->columns);
        count_row(p, c, 0, row + i, 0, from, to, (REAL)(p->scale * LOG16E), scores + i * PITCH);
    }
}

/* The scores of a meeting out of its content, and what their gradients need. */
static void learn_counts(const struct pe_attention *p, struct counting *c, const struct meeting *m,
                         const REAL *factor, REAL *scores) {
    for (int64_t i = 0; i < m->rows; i++) {
        int64_t from = i + m->band.first, to = least(i + m->band.last + 1, m->columns);
        c->count[c->row + i] = c->before[c->row + i];
        if (factor[i] != 0)
            count_row(p, c, 1, c->row + i, i, from, to, (REAL)(p->scale * LOG16E),
                      scores + i * PITCH);
    }
}

/* What a row of gradients of scores gives to the steps that it read. */
INLINE void add_to_steps(const WHOLE *below, const REAL *share, const REAL *grads, REAL *sums) {
    for (int64_t j = 0; j < TILE; j++) {
        REAL *at = sums + 2 * below[j], grad = grads[j], part = grad * share[j];
        at[0] += grad;
        at[1] += part;
    }
}

/* Gradients of a meeting's scores become those of its content. */
static void gate_gradients(const struct pe_attention *p, struct counting *c,
                           const struct meeting *m, const REAL *factor, REAL *grads) {
    int64_t steps = p->by_count_steps;
    for (int64_t i = 0; i < m->rows; i++, grads += PITCH) {
        int64_t row = c->row + i, at = i * TILE;
        REAL *sums = c->sums + row * 2 * steps;
        if (factor[i] == 0) continue;
        if (counted_out(p, c->before[row])) {
            sums[2 * (steps - 1)] += sum_of_row(grads);
            continue;
        }
        add_to_steps(c->below + at, c->share + at, grads, sums);
        double pull = c->pull[row];
        for (int64_t n = 0; n < TILE; n += WIDTH) {
            vr grad = get(grads + n), older = sums_to(grad * get(c->rise + at + n));
            put(grads + n, grad + (older + (REAL)pull) * get(c->slope + at + n));
            pull += (double)older[WIDTH - 1];
        }
        c->pull[row] = pull;
    }
}
