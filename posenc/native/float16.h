/* float16 to float32 and back: exact, and rounded to nearest even. NaN stays NaN, quiet and with
   its upper bits; what is too large becomes infinite. No number of less than 2^-126 takes part,
   so that it makes no difference whether the processor flushes those to zero. */
#ifndef POSENC_FLOAT16_H
#define POSENC_FLOAT16_H

#include "lanes.h"

/* a where `yes` is all ones, b where it is zero. */
INLINE vu either(vi yes, vu a, vu b) { return (a & (vu)yes) | (b & ~(vu)yes); }

INLINE vf wide_f16(vh x) {
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps((__m256i)x);
#elif defined(__F16C__) && LANES == 8
    return (vf)_mm256_cvtph_ps((__m128i)x);
#else
    const vu bits = __builtin_convertvector(x, vu), sign = (bits & 0x8000u) << 16;
    const vi size = (vi)((bits & 0x7fffu) << 13);
    /* The exponent counts from 2^-15 there, from 2^-127 here; above it are infinities and NaN. */
    const vu normal = (vu)size + (112u << 23);
    const vu large = (vu)size | 0x7f800000u | ((vu)(size > 0x0f800000) & 0x00400000u);
    /* 2^-14 + x as if it were normal, less 2^-14. */
    const vf least = (vf)((vu){0} + (113u << 23));
    const vu small = (vu)((vf)((vu)size + (113u << 23)) - least);
    return (vf)(sign | either(size < 0x00800000, small, either(size < 0x0f800000, normal, large)));
#endif
}

INLINE vh narrow_f16(vf x) {
#if defined(__AVX512F__)
    return (vh)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__F16C__) && LANES == 8
    return (vh)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#else
    const vu bits = (vu)x, sign = (bits >> 16) & 0x8000u;
    const vi size = (vi)(bits & 0x7fffffffu);
    /* Half of the last place is added, less a unit where the place before is even. */
    const vu normal = ((vu)size - (112u << 23) + 0xfffu + (((vu)size >> 13) & 1u)) >> 13;
    /* In a sum with 1/2 the last place is that of the smallest float16. */
    const vf half = (vf)((vu){0} + (126u << 23));
    const vu small = (vu)((vf)size + half) - (126u << 23);
    const vu nan = 0x7e00u | (((vu)size >> 13) & 0x3ffu);
    const vu large = either(size > 0x7f800000, nan, (vu){0} + 0x7c00u);
    const vu number = either(size < 113 << 23, small, either(size < 143 << 23, normal, large));
    return __builtin_convertvector(sign | number, vh);
#endif
}

INLINE vf load_f16(const uint16_t *x) {
    vh h;
    memcpy(&h, x, sizeof h);
    return wide_f16(h);
}

INLINE void store_f16(uint16_t *x, vf v) {
    vh h = narrow_f16(v);
    memcpy(x, &h, sizeof h);
}

INLINE float from_f16(uint16_t x) { return wide_f16((vh){x})[0]; }
INLINE uint16_t to_f16(float x) { return narrow_f16((vf){x})[0]; }

#endif
