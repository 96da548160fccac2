/* Vectors of REAL (float or double, defined by the file that includes this), and exp2. */
#include "lanes.h"

#define WIDE ((int64_t)(sizeof(vf) / sizeof(REAL)))

typedef REAL vr __attribute__((vector_size(sizeof(vf))));
typedef WHOLE vw __attribute__((vector_size(sizeof(vf))));

/* n numbers, rounded up to vectors. */
INLINE int64_t padded(int64_t n) { return (n + WIDE - 1) / WIDE * WIDE; }

INLINE vr get(const REAL *x) { vr v; memcpy(&v, x, sizeof v); return v; }
INLINE void put(REAL *x, vr v) { memcpy(x, &v, sizeof v); }
INLINE vr all(REAL x) { return x - (vr){0}; }

/* The first `count` numbers of a vector: zeros after those that are read, and what lies behind those
   that are written stays. */
#if defined(__AVX512F__) && IS_FLOAT
INLINE vr get_first(const REAL *x, int64_t count) {
    return (vr)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), x);
}
INLINE void put_first(REAL *x, vr v, int64_t count) {
    _mm512_mask_storeu_ps(x, (__mmask16)((1u << count) - 1), (__m512)v);
}
#elif defined(__AVX512F__)
INLINE vr get_first(const REAL *x, int64_t count) {
    return (vr)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), x);
}
INLINE void put_first(REAL *x, vr v, int64_t count) {
    _mm512_mask_storeu_pd(x, (__mmask8)((1u << count) - 1), (__m512d)v);
}
#else
INLINE vr get_first(const REAL *x, int64_t count) {
    REAL first[sizeof(vf) / sizeof(REAL)] = {0};
    for (int64_t i = 0; i < count; i++) first[i] = x[i];
    return get(first);
}
INLINE void put_first(REAL *x, vr v, int64_t count) {
    REAL first[sizeof(vf) / sizeof(REAL)];
    put(first, v);
    for (int64_t i = 0; i < count; i++) x[i] = first[i];
}
#endif

INLINE vr chosen(vw where, vr x) { return (vr)((vw)x & where); }

/* x, and -infinity where it is not seen. */
INLINE vr hidden_but(vw seen, vr x) { return (vr)(((vw)x & seen) | ((vw)all(-INFINITY) & ~seen)); }

/* Which lanes of vector n of a row lie in the columns from .. to. */
INLINE vw lanes_in(int64_t n, int64_t from, int64_t to) {
    static const WHOLE first[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    vw lane;
    memcpy(&lane, first, sizeof lane);
    return (vw)(lane >= (WHOLE)(from - n * WIDE)) & (vw)(lane < (WHOLE)(to - n * WIDE));
}

/* The greater of each pair; the second where either is NaN, so that NaNs stay. */
INLINE vr greater(vr a, vr b) {
#if defined(__AVX512F__) && IS_FLOAT
    return (vr)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX512F__)
    return (vr)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif defined(__AVX2__) && IS_FLOAT
    return (vr)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__AVX2__)
    return (vr)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
    vw first = (vw)(a > b);
    return (vr)(((vw)a & first) | ((vw)b & ~first));
#endif
}

INLINE REAL greatest_of(vr v) {
#if defined(__AVX512F__) && IS_FLOAT
    return _mm512_reduce_max_ps((__m512)v);
#elif defined(__AVX512F__)
    return _mm512_reduce_max_pd((__m512d)v);
#elif defined(__AVX2__) && IS_FLOAT
    __m128 x = _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
#elif defined(__AVX2__)
    __m128d x = _mm_max_pd(_mm256_castpd256_pd128((__m256d)v), _mm256_extractf128_pd((__m256d)v, 1));
    return _mm_cvtsd_f64(_mm_max_sd(x, _mm_unpackhi_pd(x, x)));
#else
    REAL x = v[0];
    for (int64_t i = 1; i < WIDE; i++) x = x > v[i] ? x : v[i];
    return x;
#endif
}

INLINE REAL sum_of(vr v) {
#if defined(__AVX512F__) && IS_FLOAT
    return _mm512_reduce_add_ps((__m512)v);
#elif defined(__AVX512F__)
    return _mm512_reduce_add_pd((__m512d)v);
#elif defined(__AVX2__) && IS_FLOAT
    __m128 x = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
#else
    REAL x = v[0];
    for (int64_t i = 1; i < WIDE; i++) x += v[i];
    return x;
#endif
}

/* 16^x, within about one unit in the last place; 0 below the normal numbers. x < 32 (256).
   In units of log 16 every finite score is finite, and a factor of 4 costs nothing beside a sum.
   ROUNDER puts the exponent of 2^n, n = round(4 x), into the lowest bits of a sum. */
INLINE vr exp16_by(const REAL *c, const int top, vr x) {
    vr t = x * 4 + (REAL)ROUNDER;
    vr r = x * 4 - (t - (REAL)ROUNDER);
    vr p = all(c[top]);
#pragma GCC unroll 16
    for (int i = top - 1; i >= 0; i--) p = p * r + c[i];
    p *= (vr)((vw)t << MANTISSA);
    return (vr)((vw)p & ~(vw)(x < (REAL)LOWEST / 4));
}

INLINE vr exp16_of(vr x) {
    static const REAL c[] = {EXP2_COEFFICIENTS};
    return exp16_by(c, sizeof c / sizeof *c - 1, x);
}

/* The same for what is rounded to 8 bits. */
INLINE vr short_exp16_of(vr x) {
    static const REAL c[] = {EXP2_SHORT};
    return exp16_by(c, sizeof c / sizeof *c - 1, x);
}

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
