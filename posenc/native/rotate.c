/* Rotation of queries and keys: one pass over memory, in place or out of place. */
#include "float16.h"
#include "lanes.h"
#include "posenc.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

/* Fewer elements than this are rotated by one thread: waking another takes as long. */
enum { ALONE = 1 << 15 };

/* Rows at constant steps, counted in elements; with each the same row of the next `heads` - 1
   heads, so that cos and sin are read once for them. */
struct rows {
    int64_t count, pairs, from_step, to_step, table_step, heads, from_head, to_head;
};

INLINE void split_float(const float *x, vf *first, vf *second) {
    vf a = load(x), b = load(x + LANES);
    *first = EVEN(a, b);
    *second = ODD(a, b);
}

INLINE void join_float(float *y, vf first, vf second) {
    store(y, LOW(first, second));
    store(y + LANES, HIGH(first, second));
}

INLINE void split_double(const double *x, vd *first, vd *second) {
    vd a = load_d(x), b = load_d(x + LANES / 2);
    *first = EVEN_D(a, b);
    *second = ODD_D(a, b);
}

INLINE void join_double(double *y, vd first, vd second) {
    store_d(y, LOW_D(first, second));
    store_d(y + LANES / 2, HIGH_D(first, second));
}

/* Two neighbours of bfloat16 are one lane of 32 bits: only their rounding takes time. */
INLINE void split_bf16(const uint16_t *x, vf *first, vf *second) {
    vu both = load_u(x);
    *first = (vf)(both << 16);
    *second = (vf)(both & 0xffff0000u);
}

INLINE void join_bf16(uint16_t *y, vf first, vf second) {
#if defined(__AVX512BF16__)
    /* 16 firsts, then 16 seconds. */
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
    const __m512i order = _mm512_add_epi32(
        _mm512_set1_epi32(0x00100000),
        _mm512_mullo_epi32(_mm512_set1_epi32(0x00010001),
                           _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)));
    store_u(y, (vu)_mm512_permutexvar_epi16(order, both));
#else
    store_u(y, (rounded_bf16(first) >> 16) | (rounded_bf16(second) & 0xffff0000u));
#endif
}

INLINE void split_f16(const uint16_t *x, vf *first, vf *second) {
    vf a = load_f16(x), b = load_f16(x + LANES);
    *first = EVEN(a, b);
    *second = ODD(a, b);
}

INLINE void join_f16(uint16_t *y, vf first, vf second) {
    store_f16(y, LOW(first, second));
    store_f16(y + LANES, HIGH(first, second));
}

#define NAMED(x) x##_float
#define T float
#define A float
#define V vf
#define WIDTH LANES
#define LOAD load
#define STORE store
#define LOAD_TABLE load
#define SPLITS 0
#define SWAP SWAPPED
#define LOWS LOW
#define HIGHS HIGH
#define EVENS EVEN
#define ODDS ODD
#define SPLIT split_float
#define JOIN join_float
#define FROM(x) (x)
#define TO(x) (x)
#include "rotate_rows.h"

#define NAMED(x) x##_bf16
#define T uint16_t
#define A float
#define V vf
#define WIDTH LANES
#define LOAD load_bf16
#define STORE store_bf16
#define LOAD_TABLE load
#define SPLITS 1
#define SWAP SWAPPED
#define LOWS LOW
#define HIGHS HIGH
#define EVENS EVEN
#define ODDS ODD
#define SPLIT split_bf16
#define JOIN join_bf16
#define FROM from_bf16
#define TO to_bf16
#include "rotate_rows.h"

#define NAMED(x) x##_f16
#define T uint16_t
#define A float
#define V vf
#define WIDTH LANES
#define LOAD load_f16
#define STORE store_f16
#define LOAD_TABLE load
#define SPLITS 0
#define SWAP SWAPPED
#define LOWS LOW
#define HIGHS HIGH
#define EVENS EVEN
#define ODDS ODD
#define SPLIT split_f16
#define JOIN join_f16
#define FROM from_f16
#define TO to_f16
#include "rotate_rows.h"

#define NAMED(x) x##_double
#define T double
#define A double
#define V vd
#define WIDTH (LANES / 2)
#define LOAD load_d
#define STORE store_d
#define LOAD_TABLE load_d
#define SPLITS 0
#define SWAP SWAPPED_D
#define LOWS LOW_D
#define HIGHS HIGH_D
#define EVENS EVEN_D
#define ODDS ODD_D
#define SPLIT split_double
#define JOIN join_double
#define FROM(x) (x)
#define TO(x) (x)
#include "rotate_rows.h"

/* The dimensions that are not rotated, of rows that do not stay where they are. */
static void copy_rest(const char *x, char *y, const struct rows *rows, int64_t start, int64_t dim,
                      int64_t bytes) {
    const int64_t end = start + 2 * rows->pairs;
    for (int64_t row = 0; row < rows->count; row++) {
        for (int64_t head = 0; head < rows->heads; head++) {
            const char *from = x + (row * rows->from_step + head * rows->from_head) * bytes;
            char *to = y + (row * rows->to_step + head * rows->to_head) * bytes;
            memcpy(to, from, (size_t)(start * bytes));
            memcpy(to + end * bytes, from + end * bytes, (size_t)((dim - end) * bytes));
        }
    }
}

/* How many heads are rotated together: those that share cos and sin, and only whole vectors. */
static int64_t heads_together(const struct pe_rotation *call, const struct pe_rotated *x, int inner) {
    if (inner == 1 || x->table_stride[1] != 0 || call->pairs % LANES != 0) return 1;
    return x->size[1] % 4 == 0 ? 4 : x->size[1] % 2 == 0 ? 2 : 1;
}

/* Which dimension is walked first: heads where they lie closer together than tokens do. */
static int inner_of(const struct pe_rotated *x) {
    return x->size[2] == 1 || x->from_stride[1] < x->from_stride[2] ? 1 : 2;
}

/* Rows lo .. hi - 1 of a tensor, counted over (b, outer, inner), heads together as one. */
static void rotate_part(const struct pe_rotation *call, const struct pe_rotated *x, int64_t lo,
                      int64_t hi) {
    const int64_t bytes = x->type == PE_FLOAT64 ? 8 : x->type == PE_FLOAT32 ? 4 : 2;
    const int64_t table_bytes = x->type == PE_FLOAT64 ? 8 : 4;
    const int inner = inner_of(x), outer = 3 - inner;
    const int64_t together = heads_together(call, x, inner);
    const int64_t width = x->size[inner], height = x->size[outer] / together;
    const int moves = x->from != x->to;
    struct rows rows = {0, call->pairs, x->from_stride[inner], x->to_stride[inner],
                        x->table_stride[inner], together, x->from_stride[1], x->to_stride[1]};
    while (lo < hi) {
        int64_t index[3], from = 0, to = 0, table = 0;
        index[inner] = lo % width;
        index[outer] = lo / width % height * together;
        index[0] = lo / width / height;
        for (int i = 0; i < 3; i++) {
            from += index[i] * x->from_stride[i];
            to += index[i] * x->to_stride[i];
            table += index[i] * x->table_stride[i];
        }
        rows.count = width - index[inner] < hi - lo ? width - index[inner] : hi - lo;
        const char *source = (const char *)x->from + from * bytes;
        char *target = (char *)x->to + to * bytes;
        const char *cos = (const char *)x->cos + table * table_bytes;
        const char *sin = (const char *)x->sin + table * table_bytes;
        if (moves && 2 * call->pairs < x->size[3])
            copy_rest(source, target, &rows, call->start, x->size[3], bytes);
        source += call->start * bytes, target += call->start * bytes;
        const int interleaved = (int)call->interleaved, back = (int)call->back;
        if (x->type == PE_FLOAT32)
            rotate_float(source, target, cos, sin, &rows, interleaved, back);
        else if (x->type == PE_BFLOAT16)
            rotate_bf16(source, target, cos, sin, &rows, interleaved, back);
        else if (x->type == PE_FLOAT16)
            rotate_f16(source, target, cos, sin, &rows, interleaved, back);
        else
            rotate_double(source, target, cos, sin, &rows, interleaved, back);
        lo += rows.count;
    }
}

static int64_t rows_of(const struct pe_rotation *call, const struct pe_rotated *x) {
    const int64_t all = x->size[0] * x->size[1] * x->size[2];
    return all / heads_together(call, x, inner_of(x));
}

/* The share of one thread: rows are counted through all tensors, so that heads need not divide. */
static void rotate_share(const struct pe_rotation *call, int64_t total, int64_t part, int64_t parts) {
    int64_t lo = total * part / parts, hi = total * (part + 1) / parts, before = 0;
    for (int64_t i = 0; i < call->count; i++) {
        const struct pe_rotated *x = &call->x[i];
        const int64_t rows = rows_of(call, x);
        const int64_t first = lo > before ? lo - before : 0;
        const int64_t end = hi - before < rows ? hi - before : rows;
        if (first < end) rotate_part(call, x, first, end);
        before += rows;
    }
}

void PE_OWN(pe_rotate)(const struct pe_rotation *call) {
    int64_t total = 0, elements = 0;
    for (int64_t i = 0; i < call->count; i++) {
        const int64_t *size = call->x[i].size;
        total += rows_of(call, &call->x[i]);
        elements += size[0] * size[1] * size[2] * size[3];
    }
#if defined(_OPENMP)
    if (call->threads > 1 && elements >= ALONE) {
#pragma omp parallel num_threads((int)call->threads)
        rotate_share(call, total, omp_get_thread_num(), omp_get_num_threads());
        return;
    }
#endif
    (void)elements;
    rotate_share(call, total, 0, 1);
}
