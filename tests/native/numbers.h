/* Numbers of any type of the kernels, drawn, read and written: what the drivers share. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../posenc/native/posenc.h"

static uint64_t state = 1;

static double draw(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 33) / (double)(1u << 30) - 1.0;
}

static int64_t size_of(int64_t type) { return type == PE_FLOAT64 ? 8 : type == PE_FLOAT32 ? 4 : 2; }

static double of_float16(uint16_t x) {
    const int exponent = x >> 10 & 31, digits = x & 1023;
    double size = exponent ? ldexp(1024 + digits, exponent - 25) : ldexp(digits, -24);
    if (exponent == 31) size = digits ? (double)NAN : (double)INFINITY;
    return x >> 15 ? -size : size;
}

/* Of numbers that are not too large for it. */
static uint16_t to_float16(double x) {
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return sign | 0x7e00;
    int exponent = 0;
    frexp(x, &exponent);
    /* The power of 2 of the last place, and how many of it. */
    const int last = exponent < -13 ? -24 : exponent - 11;
    const int count = (int)nearbyint(ldexp(fabs(x), -last));
    return (uint16_t)(sign | ((last + 24) * 1024 + count));
}

static double read_one(const void *x, int64_t type, int64_t i) {
    if (type == PE_FLOAT64) return ((const double *)x)[i];
    if (type == PE_FLOAT32) return ((const float *)x)[i];
    if (type == PE_FLOAT16) return of_float16(((const uint16_t *)x)[i]);
    uint32_t bits = (uint32_t)((const uint16_t *)x)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void write_one(void *x, int64_t type, int64_t i, double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (type == PE_FLOAT64) ((double *)x)[i] = value;
    if (type == PE_FLOAT32) ((float *)x)[i] = narrow;
    if (type == PE_BFLOAT16) ((uint16_t *)x)[i] = (uint16_t)(bits >> 16);
    if (type == PE_FLOAT16) ((uint16_t *)x)[i] = to_float16(value);
}
