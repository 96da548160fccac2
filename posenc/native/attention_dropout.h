/* Dropout: of each pair of a query and a key one number, by Philox 4x32 with 7 rounds (Salmon et al.
   2011), counted by head, query and key, under the seed of the call. Both passes and any cut into
   tiles draw the same, and nothing is stored. */

#define PHILOX_ROUNDS 7

/* The upper half of x * by, and the lower one. */
INLINE void multiply(vu x, uint32_t by, vu *upper, vu *lower) {
#if defined(__AVX512F__)
    const __m512i factor = _mm512_set1_epi32((int)by);
    __m512i even = _mm512_mul_epu32((__m512i)x, factor);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)x, 32), factor);
    *upper = (vu)_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
    *lower = (vu)_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
#elif defined(__AVX2__)
    const __m256i factor = _mm256_set1_epi32((int)by);
    __m256i even = _mm256_mul_epu32((__m256i)x, factor);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)x, 32), factor);
    *upper = (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    *lower = (vu)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
#else
    *lower = x * by;
    for (int64_t n = 0; n < LANES; n++) (*upper)[n] = (uint32_t)((uint64_t)x[n] * by >> 32);
#endif
}

/* Words for 64 keys of a query, the keys 64 group on: key 16 r + c of them has word r of counter c. */
static void draw_words(uint64_t seed, uint64_t group, uint32_t query, uint32_t head, uint32_t *to) {
    static const uint32_t counters[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vu zero = {0};
    for (int64_t n = 0; n < 16; n += LANES) {
        vu x = load_u(counters + n) + (uint32_t)(group * 16), y = zero + query, z = zero + head;
        vu w = zero + (uint32_t)(group >> 28);
        uint32_t key = (uint32_t)seed, other = (uint32_t)(seed >> 32);
#pragma GCC unroll 10
        for (int round = 0; round < PHILOX_ROUNDS; round++) {
            vu x_upper, x_lower, z_upper, z_lower;
            multiply(x, 0xd2511f53u, &x_upper, &x_lower);
            multiply(z, 0xcd9e8d57u, &z_upper, &z_lower);
            x = z_upper ^ y ^ key;
            z = x_upper ^ w ^ other;
            y = z_lower;
            w = x_lower;
            key += 0x9e3779b9u;
            other += 0xbb67ae85u;
        }
        store_u(to + n, x);
        store_u(to + 16 + n, y);
        store_u(to + 32 + n, z);
        store_u(to + 48 + n, w);
    }
}

/* What multiplies the weights of a query and TILE keys: 0, or 1 / (1 - dropout). */
static void draw_kept(const struct pe_attention *p, int64_t b, int64_t h, int64_t query, int64_t key,
                      REAL *kept) {
    uint32_t words[2 * TILE], from = (uint32_t)(p->dropout * 4294967296.0);
    uint64_t seed = (uint64_t)*p->seed, group = (uint64_t)(key / TILE);
    uint32_t head = (uint32_t)(b * p->heads + h);
    const REAL factor = (REAL)(1 / (1 - p->dropout));
    const uint32_t *own = words + key % TILE;
    draw_words(seed, group, (uint32_t)query, head, words);
    if (key % TILE) draw_words(seed, group + 1, (uint32_t)query, head, words + TILE);
    for (int64_t j = 0; j < TILE; j++) kept[j] = own[j] < from ? 0 : factor;
}

/* x = (x + shift) * kept, for a row of a tile. */
static void keep(const REAL *kept, REAL shift, REAL *x) {
    for (int64_t n = 0; n < TILE; n += WIDE) put(x + n, (get(x + n) + shift) * get(kept + n));
}

static void drop_row(const struct pe_attention *p, int64_t b, int64_t h, int64_t query, int64_t key,
                     REAL *weights) {
    REAL kept[TILE];
    draw_kept(p, b, h, query, key, kept);
    keep(kept, 0, weights);
}
