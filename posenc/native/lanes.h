/* Vectors of the instruction set that is being compiled, by the extensions of GCC and Clang:
   loads and stores that convert between memory and arithmetic (float32, or float64). */
#ifndef POSENC_LANES_H
#define POSENC_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(LANES * 2)));
typedef double vd __attribute__((vector_size(LANES * 4)));
typedef int64_t vl __attribute__((vector_size(LANES * 4)));

#define INLINE static inline __attribute__((always_inline))

/* SHUFFLE2(a, b, mask type, indices): elements of a, then of b. */
#if defined(__clang__)
#define SHUFFLE2(a, b, mask, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE2(a, b, mask, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
#endif

/* a0 a1 .. b0 b1 .. to the elements of even and of odd index, and back; a1 a0 a3 a2 .. */
#if LANES == 16
#define EVEN(a, b) SHUFFLE2(a, b, vi, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b) SHUFFLE2(a, b, vi, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define LOW(a, b) SHUFFLE2(a, b, vi, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) SHUFFLE2(a, b, vi, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define EVEN_D(a, b) SHUFFLE2(a, b, vl, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD_D(a, b) SHUFFLE2(a, b, vl, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW_D(a, b) SHUFFLE2(a, b, vl, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_D(a, b) SHUFFLE2(a, b, vl, 4, 12, 5, 13, 6, 14, 7, 15)
#define SWAPPED(a) SHUFFLE2(a, a, vi, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#define SWAPPED_D(a) SHUFFLE2(a, a, vl, 1, 0, 3, 2, 5, 4, 7, 6)
#elif LANES == 8
#define EVEN(a, b) SHUFFLE2(a, b, vi, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b) SHUFFLE2(a, b, vi, 1, 3, 5, 7, 9, 11, 13, 15)
#define LOW(a, b) SHUFFLE2(a, b, vi, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) SHUFFLE2(a, b, vi, 4, 12, 5, 13, 6, 14, 7, 15)
#define EVEN_D(a, b) SHUFFLE2(a, b, vl, 0, 2, 4, 6)
#define ODD_D(a, b) SHUFFLE2(a, b, vl, 1, 3, 5, 7)
#define LOW_D(a, b) SHUFFLE2(a, b, vl, 0, 4, 1, 5)
#define HIGH_D(a, b) SHUFFLE2(a, b, vl, 2, 6, 3, 7)
#define SWAPPED(a) SHUFFLE2(a, a, vi, 1, 0, 3, 2, 5, 4, 7, 6)
#define SWAPPED_D(a) SHUFFLE2(a, a, vl, 1, 0, 3, 2)
#else
#define EVEN(a, b) SHUFFLE2(a, b, vi, 0, 2, 4, 6)
#define ODD(a, b) SHUFFLE2(a, b, vi, 1, 3, 5, 7)
#define LOW(a, b) SHUFFLE2(a, b, vi, 0, 4, 1, 5)
#define HIGH(a, b) SHUFFLE2(a, b, vi, 2, 6, 3, 7)
#define EVEN_D(a, b) SHUFFLE2(a, b, vl, 0, 2)
#define ODD_D(a, b) SHUFFLE2(a, b, vl, 1, 3)
#define LOW_D(a, b) SHUFFLE2(a, b, vl, 0, 2)
#define HIGH_D(a, b) SHUFFLE2(a, b, vl, 1, 3)
#define SWAPPED(a) SHUFFLE2(a, a, vi, 1, 0, 3, 2)
#define SWAPPED_D(a) SHUFFLE2(a, a, vl, 1, 0)
#endif

INLINE vf load(const float *x) { vf v; memcpy(&v, x, sizeof v); return v; }
INLINE void store(float *x, vf v) { memcpy(x, &v, sizeof v); }
INLINE vd load_d(const double *x) { vd v; memcpy(&v, x, sizeof v); return v; }
INLINE void store_d(double *x, vd v) { memcpy(x, &v, sizeof v); }
INLINE vu load_u(const void *x) { vu v; memcpy(&v, x, sizeof v); return v; }
INLINE void store_u(void *x, vu v) { memcpy(x, &v, sizeof v); }

/* bfloat16 in the upper half of each lane, rounded to nearest even; the lower half is junk. */
INLINE vu rounded_bf16(vf x) {
    vu u = (vu)x;
    /* Rounding could carry a NaN over into zero: all bits of such a lane are set. */
    return (u + 0x7fffu + ((u >> 16) & 1u)) | (vu)(x != x);
}

INLINE vf load_bf16(const uint16_t *x) {
    vh h;
    memcpy(&h, x, sizeof h);
    return (vf)(__builtin_convertvector(h, vu) << 16);
}

INLINE void store_bf16(uint16_t *x, vf v) {
#if defined(__AVX512BF16__)
    __m256bh h = _mm512_cvtneps_pbh((__m512)v);
    memcpy(x, &h, sizeof h);
#else
    vh h = __builtin_convertvector(rounded_bf16(v) >> 16, vh);
    memcpy(x, &h, sizeof h);
#endif
}

INLINE float from_bf16(uint16_t x) {
    uint32_t u = (uint32_t)x << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

INLINE uint16_t to_bf16(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (x != x) return 0xffff;
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

#endif
