/* Attention in float32, of float32, bfloat16 and float16 tensors. */
#define REAL float
#define REAL_TYPE PE_FLOAT32
#define WHOLE int32_t
#define IS_FLOAT 1
#define EXP2 exp2f
/* log e to the base 16. */
#define LOG16E 0.36067376022224085
#define MANTISSA 23
#define LOWEST -126
/* 1.5 * 2^23 + 127 */
#define ROUNDER 12583039.0f
/* Chebyshev interpolation of 2^x on [-1/2, 1/2], relative error 3e-9. */
#define EXP2_COEFFICIENTS                                                                    \
    1.0f, 0.69314720670283259577f, 0.24022650922288758071f, 0.055503272266703020589f,        \
        0.0096180566785246380754f, 0.001340042817761583794f, 0.00015461444698569129083f
/* The least greatest relative error, 3e-6, of those that are exact at 0: a row of one key weighs 1.
   It is also that of a row's sum of weights, whose log is told. */
#define EXP2_SHORT 1.0f, 0.69312419f, 0.24024099f, 0.05590644f, 0.00958286f
#include "attention_kernels.h"

int64_t PE_OWN(pe_attention_float_scratch)(const struct pe_attention *call);
int64_t PE_OWN(pe_attention_float_scratch)(const struct pe_attention *call) { return scratch_bytes(call); }

void PE_OWN(pe_attention_float)(const struct pe_attention *call);
void PE_OWN(pe_attention_float)(const struct pe_attention *call) { attention(call); }

int64_t PE_OWN(pe_query_float_scratch)(const struct pe_query *call);
int64_t PE_OWN(pe_query_float_scratch)(const struct pe_query *call) { return asked_bytes(call); }

void PE_OWN(pe_query_float)(const struct pe_query *call, void *memory);
void PE_OWN(pe_query_float)(const struct pe_query *call, void *memory) { masked_query(call, memory); }
