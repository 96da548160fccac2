/* The C kernels of posenc: a plain C interface that ctypes calls, one build for every torch.

   Every exported function is pe_<name> and takes plain C types. No kernel keeps state. A kernel is
   compiled once for every instruction set (the CMakeLists.txt in cmake/ lists them) as
   PE_OWN(pe_<name>), and dispatch.c chooses one of them at run time. */
#ifndef POSENC_H
#define POSENC_H

#include <stdint.h>

#include "attention.h"

#define PE_EXPORT __attribute__((visibility("default")))
#define PE_JOIN_(name, set) name##_##set
#define PE_JOIN(name, set) PE_JOIN_(name, set)
/* The name of a kernel in the instruction set that is being compiled. */
#define PE_OWN(name) PE_JOIN(name, PE_SET)

/* Element types, as posenc/native/library.py counts them. */
enum pe_type { PE_FLOAT32, PE_BFLOAT16, PE_FLOAT64, PE_FLOAT16, PE_TYPES };

/* A tensor x (b, h, t, d) to rotate, and where to; `to` may be `from`. Strides count elements; the
   last dimension is contiguous. cos and sin (b, h, t, pairs) are float64 for float64 tensors and
   float32 for all others; a dimension in which they are broadcast has stride 0. */
struct pe_rotated {
    const void *from;
    void *to;
    const void *cos, *sin;
    int64_t type;
    int64_t size[4];
    int64_t from_stride[3], to_stride[3], table_stride[3];
};

/* Rotates the pairs of dimensions start .. start + 2 pairs of each of `count` tensors and copies
   the others:  y1 = x1 cos - x2 sin,  y2 = x1 sin + x2 cos,  sin negated where `back`. */
struct pe_rotation {
    int64_t count, pairs, start, interleaved, back, threads;
    struct pe_rotated x[2];
};

/* Attention of one query (batch, heads, 1, width) with keys and values (batch, key_heads, keys, .):

   out = softmax(scale * q . k + mask; sink beside) v, zeros where the mask is -inf everywhere.

   mask (1|batch, 1|heads, 1, keys) is of the arithmetic's type, or NULL; steps are 0 where it is
   shared. sink (heads) is a logit of a key without a value, or NULL. Strides count elements; the last
   dimension is contiguous, and so is the result. */
struct pe_query {
    int64_t type;
    int64_t batch, heads, key_heads, keys, width, value_width, workers;
    const void *q;
    int64_t q_stride[2];
    const void *k;
    int64_t k_stride[3];
    const void *v;
    int64_t v_stride[3];
    const void *mask;
    int64_t mask_stride[2];
    const double *sink;
    double scale;
    void *out;
};

/* How many element types there are, and bytes of a call's structure: Python refuses a library of
   older sources, whose are others. */
PE_EXPORT int64_t pe_type_count(void);
PE_EXPORT int64_t pe_rotation_size(void);
PE_EXPORT int64_t pe_attention_size(void);
PE_EXPORT int64_t pe_query_size(void);
/* The name of the instruction set that dispatch chooses here. */
PE_EXPORT const char *pe_instruction_set(void);
/* Takes none better than the one of this name; 0 where there is no such name. */
PE_EXPORT int64_t pe_limit_instruction_set(const char *name);
PE_EXPORT void pe_rotate(const struct pe_rotation *call);
/* In float32, for float32, bfloat16 and float16 tensors, and in float64. */
PE_EXPORT void pe_attention_float(const struct pe_attention *call);
PE_EXPORT void pe_attention_double(const struct pe_attention *call);
/* How many bytes of scratch such a call needs; it may have none yet. */
PE_EXPORT int64_t pe_attention_float_scratch(const struct pe_attention *call);
PE_EXPORT int64_t pe_attention_double_scratch(const struct pe_attention *call);
/* Of one query, and the scratch of each of its workers. */
PE_EXPORT void pe_query_float(const struct pe_query *call, void *memory);
PE_EXPORT void pe_query_double(const struct pe_query *call, void *memory);
PE_EXPORT int64_t pe_query_float_scratch(const struct pe_query *call);
PE_EXPORT int64_t pe_query_double_scratch(const struct pe_query *call);
/* Asks for huge pages where the memory is large and not touched yet: advice, never an error. */
PE_EXPORT void pe_huge_pages(void *memory, int64_t bytes);

#endif
