/* Attention in float64. */
#define REAL double
#define REAL_TYPE PE_FLOAT64
#define WHOLE int64_t
#define IS_FLOAT 0
#define EXP2 exp2
/* log e to the base 16. */
#define LOG16E 0.36067376022224085
#define MANTISSA 52
#define LOWEST -1022
/* 1.5 * 2^52 + 1023 */
#define ROUNDER 6755399441056767.0
/* Chebyshev interpolation of 2^x on [-1/2, 1/2], relative error 6e-20. */
#define EXP2_COEFFICIENTS                                                                      \
    1.0, 0.69314718055994530835, 0.24022650695910071228, 0.055504108664821698992,              \
        0.0096181291076284830543, 0.0013333558146390352775, 0.00015403530393362755291,         \
        0.000015252733856293466416, 1.3215486815999976975e-6, 1.017805119296064896e-7,         \
        7.0548943863483480445e-9, 4.4566753410492058782e-10, 2.5733568308756891235e-11
#define EXP2_SHORT EXP2_COEFFICIENTS
#include "attention_kernels.h"

int64_t PE_OWN(pe_attention_double_scratch)(const struct pe_attention *call);
int64_t PE_OWN(pe_attention_double_scratch)(const struct pe_attention *call) { return scratch_bytes(call); }

void PE_OWN(pe_attention_double)(const struct pe_attention *call);
void PE_OWN(pe_attention_double)(const struct pe_attention *call) { attention(call); }

int64_t PE_OWN(pe_query_double_scratch)(const struct pe_query *call);
int64_t PE_OWN(pe_query_double_scratch)(const struct pe_query *call) { return asked_bytes(call); }

void PE_OWN(pe_query_double)(const struct pe_query *call, void *memory);
void PE_OWN(pe_query_double)(const struct pe_query *call, void *memory) { masked_query(call, memory); }
