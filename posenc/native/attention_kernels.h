/* Both passes for one type of arithmetic, REAL. */
#include <math.h>

#include "attention_vector.h"
#include "attention_matrix.h"
#include "attention_product.h"
#include "attention_zones.h"
#include "attention_tile.h"
#include "attention_packing.h"
#include "attention_scratch.h"
#include "attention_pairs.h"
#include "attention_meeting.h"
#include "attention_skew_squares.h"
#include "attention_skew.h"
#include "attention_far.h"
#include "attention_rows.h"
#include "attention_counts.h"
#include "attention_dropout.h"
#include "attention_diagonals.h"
#include "attention_network.h"
#include "attention_grid.h"
#include "attention_query.h"
#include "attention_softmax.h"
#include "attention_forward.h"
#include "attention_masked_query.h"
#include "attention_workspace.h"
#include "attention_gradients.h"
#include "attention_backward.h"
#include "attention_counts_backward.h"

/* The tiles of every row of the batch; one row where no row differs. */
struct plan {
    struct tile *q, *k;
    int64_t *q_count, *k_count, q_most, k_most, rows;
    /* Of every chunk what it gives to the sums over all, where there are several. */
    REAL *partial;
};

static void plan_scratch(const struct pe_attention *p, struct scratch *memory, struct plan *plan) {
    const struct pe_tokens *q = &p->q_tokens, *k = &p->k_tokens;
    int64_t steps = q->order_step | q->document_step | k->order_step | k->document_step |
                    p->valid_step;
    plan->rows = steps ? p->batch : 1;
    plan->q_most = tiles_at_most(q, 0, p->chunk, p->queries);
    plan->k_most = tiles_at_most(k, p->valid, p->chunk, p->keys);
    int64_t tile = (int64_t)sizeof(struct tile), number = (int64_t)sizeof(int64_t);
    plan->q = take_bytes(memory, plan->rows * plan->q_most * tile);
    plan->k = take_bytes(memory, plan->rows * plan->k_most * tile);
    plan->q_count = take_bytes(memory, plan->rows * number);
    plan->k_count = take_bytes(memory, plan->rows * number);
    int64_t partial = p->backward && p->chunks > 1 ? zones_of(p) * p->chunks * chunk_size(p) : 0;
    plan->partial = partial ? take(memory, partial) : 0;
}

static void cut_all(const struct pe_attention *p, struct plan *plan) {
    for (int64_t b = 0; b < plan->rows; b++) {
        plan->q_count[b] = cut(p, b, 0, plan->q + b * plan->q_most);
        plan->k_count[b] = cut(p, b, 1, plan->k + b * plan->k_most);
    }
}

/* Blocks of queries as they come to whom has time: no sum goes over two of them. The last block
   of a head, which sees the most keys where attention is causal, goes first. */
static void forward_tasks(const struct pe_attention *p, const struct plan *plan,
                          struct forward *w, int64_t *next) {
    int64_t blocks_of_head = (plan->q_most + BLOCK_TILES - 1) / BLOCK_TILES;
    int64_t heads = heads_together(p), shares = p->heads / heads;
    int64_t tasks = p->batch * shares * blocks_of_head;
    for (;;) {
        int64_t task;
#pragma omp atomic capture
        task = (*next)++;
        if (task >= tasks) return;
        int64_t i = (blocks_of_head - 1 - task % blocks_of_head) * BLOCK_TILES;
        int64_t h = task / blocks_of_head % shares * heads, b = task / blocks_of_head / shares;
        int64_t at = plan->rows == 1 ? 0 : b, count = plan->q_count[at];
        if (i < count)
            forward_block(p, w, b, h, heads, plan->q + at * plan->q_most + i,
                          least(BLOCK_TILES, count - i), plan->k + at * plan->k_most,
                          plan->k_count[at]);
    }
}

static void backward_tasks(const struct pe_attention *p, const struct plan *plan,
                           struct backward *w, int64_t worker) {
    int64_t tasks = p->batch * p->key_heads * p->chunks;
    for (int64_t task = worker; task < tasks; task += p->workers) {
        int64_t chunk = task % p->chunks, g = task / p->chunks % p->key_heads;
        int64_t b = task / p->chunks / p->key_heads, at = plan->rows == 1 ? 0 : b;
        (p->by_count ? backward_counts_task : backward_task)(
            p, w, b, g, chunk, plan->q + at * plan->q_most, plan->q_count[at],
            plan->k + at * plan->k_most, plan->k_count[at]);
    }
}

static int64_t worker_bytes(const struct pe_attention *p) {
    struct scratch count = {0};
    struct forward forward;
    struct backward backward;
    if (p->backward)
        backward_scratch(p, &count, &backward);
    else
        forward_scratch(p, &count, &forward);
    return count.used;
}

static int64_t scratch_bytes(const struct pe_attention *p) {
    struct scratch count = {0};
    struct plan plan;
    plan_scratch(p, &count, &plan);
    return count.used + p->workers * worker_bytes(p);
}

static void attention(const struct pe_attention *p) {
    struct scratch memory = {p->memory, 0};
    struct plan plan;
    plan_scratch(p, &memory, &plan);
    cut_all(p, &plan);
    int64_t next = 0, each = worker_bytes(p);
#pragma omp parallel for num_threads((int)p->workers) schedule(static, 1) if (p->workers > 1)
    for (int64_t worker = 0; worker < p->workers; worker++) {
        struct scratch own = {memory.start, memory.used + worker * each};
        struct matrix_unit unit;
        if (paired(p)) matrix_begin(&unit);
        if (p->backward) {
            struct backward w;
            backward_scratch(p, &own, &w);
            w.slot = p->slots == 1 ? 0 : worker;
            w.partial = plan.partial;
            network_sort(p, &w.network);
            clear(w.scores), clear(w.grad_weights), clear(w.weights), clear(w.grads);
            clear(w.mirror);
            if (w.tile_words) clear(w.tile_words);
            memset(w.bias, 0, REACH * sizeof(REAL));
            backward_tasks(p, &plan, &w, worker);
        } else {
            struct forward w;
            forward_scratch(p, &own, &w);
            /* Skewed products read over the edges, which one query has none of. */
            if (!lone(p)) {
                clear(w.scores), clear(w.weights);
                if (w.mirror) clear(w.mirror);
            }
            network_sort(p, &w.network);
            memset(w.bias, 0, REACH * sizeof(REAL));
            forward_tasks(p, &plan, &w, &next);
        }
        if (paired(p)) matrix_end(&unit);
    }
    for (int64_t zone = 0; p->backward && p->chunks > 1 && zone < zones_of(p); zone++) {
        struct pe_attention own = call_of_zone(p, zone);
        (p->by_count ? reduce_count_chunks : reduce_chunks)(&own, partial_of_zone(&own, plan.partial));
    }
    ASAN_UNPOISON_MEMORY_REGION(p->memory, memory.used + p->workers * each);
}
