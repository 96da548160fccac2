/* The exported functions: each calls its kernel in the best instruction set of this machine. */
#define _DEFAULT_SOURCE
#include <string.h>

#include "posenc.h"

#if defined(__linux__)
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* PE_SETS: how many of these the compiler made, from the first on. */
enum set { BASELINE, AVX2, AVX512, AVX512BF16, AMX };
static const char *const names[] = {"baseline", "avx2", "avx512", "avx512bf16", "amx"};

/* The best that may be taken: set before the first call, and then only read. */
static enum set limit = AMX;

int64_t pe_limit_instruction_set(const char *name) {
    for (enum set set = BASELINE; set <= AMX; set++)
        if (!strcmp(name, names[set])) return limit = set, 1;
    return 0;
}

#if PE_SETS > 4
/* Whether the processor has a matrix unit, and Linux lets this process use it: it is asked once, for
   the registers make every saved thread larger. */
static int has_matrix_unit(void) {
#if defined(PE_MATRIX_IN_C)
    return 1;
#elif defined(__linux__)
    enum { REQUEST = 0x1023, REGISTERS = 18, UNKNOWN = 0, NO = 1, YES = 2 };
    static int answer = UNKNOWN;
    int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
    if (known == UNKNOWN) {
        int granted = __builtin_cpu_supports("amx-bf16") &&
                      !syscall(SYS_arch_prctl, REQUEST, REGISTERS);
        known = granted ? YES : NO;
        __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
    }
    return known == YES;
#else
    return 0;
#endif
}
#endif

static enum set available(void) {
#if PE_SETS > 1
    /* Every processor with AVX2 and FMA converts float16 too; older compilers know no such name. */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return BASELINE;
#if PE_SETS > 2
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return AVX2;
#if PE_SETS > 3
#if PE_SETS > 4
    if (limit == AMX && __builtin_cpu_supports("avx512bf16") && has_matrix_unit()) return AMX;
#endif
    if (__builtin_cpu_supports("avx512bf16")) return AVX512BF16;
#endif
    return AVX512;
#else
    return AVX2;
#endif
#else
    return BASELINE;
#endif
}

static enum set best(void) {
    enum set set = available();
    return set < limit ? set : limit;
}

/* A kernel in each set, or in the best one below it. */
#define BASELINE_(name) name##_baseline
#if PE_SETS > 1
#define AVX2_(name) name##_avx2
#else
#define AVX2_ BASELINE_
#endif
#if PE_SETS > 2
#define AVX512_(name) name##_avx512
#else
#define AVX512_ AVX2_
#endif
#if PE_SETS > 3
#define AVX512BF16_(name) name##_avx512bf16
#else
#define AVX512BF16_ AVX512_
#endif

/* The last set has kernels of products alone: BEST_ is AMX_ of these, and AVX512BF16_ of others. */
#if PE_SETS > 4
#define AMX_(name) name##_amx
#else
#define AMX_ AVX512BF16_
#endif

/* Declares the kernel `name` in every set, and defines `name` as the choice among them. */
#define PE_CHOOSE(BEST_, result, name, call_type)                        \
    result BASELINE_(name)(const call_type *);                           \
    result AVX2_(name)(const call_type *);                               \
    result AVX512_(name)(const call_type *);                             \
    result AVX512BF16_(name)(const call_type *);                         \
    result BEST_(name)(const call_type *);                               \
    result name(const call_type *call) {                                 \
        enum set set = best();                                           \
        return set == AMX          ? BEST_(name)(call)                   \
               : set == AVX512BF16 ? AVX512BF16_(name)(call)             \
               : set == AVX512     ? AVX512_(name)(call)                 \
               : set == AVX2       ? AVX2_(name)(call)                   \
                                   : BASELINE_(name)(call);              \
    }

/* The same of a call with scratch beside it. */
#define PE_CHOOSE_WITH_MEMORY(name, call_type)                           \
    void BASELINE_(name)(const call_type *, void *);                     \
    void AVX2_(name)(const call_type *, void *);                         \
    void AVX512_(name)(const call_type *, void *);                       \
    void AVX512BF16_(name)(const call_type *, void *);                   \
    void name(const call_type *call, void *memory) {                     \
        enum set set = best();                                           \
        if (set >= AVX512BF16) AVX512BF16_(name)(call, memory);          \
        else if (set == AVX512) AVX512_(name)(call, memory);             \
        else if (set == AVX2) AVX2_(name)(call, memory);                 \
        else BASELINE_(name)(call, memory);                              \
    }

PE_CHOOSE(AVX512BF16_, void, pe_rotate, struct pe_rotation)
PE_CHOOSE(AMX_, void, pe_attention_float, struct pe_attention)
PE_CHOOSE(AVX512BF16_, void, pe_attention_double, struct pe_attention)
PE_CHOOSE(AMX_, int64_t, pe_attention_float_scratch, struct pe_attention)
PE_CHOOSE(AVX512BF16_, int64_t, pe_attention_double_scratch, struct pe_attention)
PE_CHOOSE_WITH_MEMORY(pe_query_float, struct pe_query)
PE_CHOOSE_WITH_MEMORY(pe_query_double, struct pe_query)
PE_CHOOSE(AVX512BF16_, int64_t, pe_query_float_scratch, struct pe_query)
PE_CHOOSE(AVX512BF16_, int64_t, pe_query_double_scratch, struct pe_query)

int64_t pe_type_count(void) { return PE_TYPES; }
int64_t pe_rotation_size(void) { return sizeof(struct pe_rotation); }
int64_t pe_attention_size(void) { return sizeof(struct pe_attention); }
int64_t pe_query_size(void) { return sizeof(struct pe_query); }

const char *pe_instruction_set(void) { return names[best()]; }

void pe_huge_pages(void *memory, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t huge = (uintptr_t)1 << 21;
    uintptr_t first = ((uintptr_t)memory + huge - 1) & ~(huge - 1);
    uintptr_t end = ((uintptr_t)memory + (uintptr_t)bytes) & ~(huge - 1);
    if (end > first) madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}
