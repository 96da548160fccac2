/* Attention in float32, of float32 and bfloat16 tensors. */
#define REAL float
#define WHOLE int32_t
#define IS_FLOAT 1
#define EXP2 exp2f
#define LOG2E 1.4426950408889634
#define MANTISSA 23
#define LOWEST -126
/* 1.5 * 2^23 + 127 */
#define ROUNDER 12583039.0f
/* Chebyshev interpolation of 2^x on [-1/2, 1/2], relative error 3e-9. */
#define EXP2_COEFFICIENTS                                                                    \
    1.0f, 0.69314720670283259577f, 0.24022650922288758071f, 0.055503272266703020589f,        \
        0.0096180566785246380754f, 0.001340042817761583794f, 0.00015461444698569129083f
#include "attention_kernels.h"

void PE_OWN(pe_attention_float)(const struct pe_attention *call);
void PE_OWN(pe_attention_float)(const struct pe_attention *call) { attention(call); }
