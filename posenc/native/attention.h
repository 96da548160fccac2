/* Attention with position terms: what Python hands over for one forward or backward pass. */
#ifndef POSENC_ATTENTION_H
#define POSENC_ATTENTION_H

#include <stdint.h>

/* A table read at the row distance + zero, clamped at its ends: of numbers (heads, rows) or of
   vectors (heads, rows, width), of the arithmetic's type. heads is 1 where all heads share it.
   `grad` (slots, heads, rows[, width]) starts as zeros, of float64 for numbers and else like the
   table. */
struct pe_table {
    const void *weight;
    void *grad;
    int64_t heads, rows, zero;
};

/* score += network(by_distance[|distance|] * by_query[i])[h], of one hidden layer of ReLUs; see
   Network in terms.py. All float64: by_distance (1, rows), by_query (1|batch, queries), hidden
   (units), output_weight (heads, units), output_bias (heads). */
struct pe_network {
    struct pe_table by_distance;
    const double *by_query;
    int64_t by_query_step;
    const double *hidden_weight, *hidden_bias, *output_weight;
    int64_t output_weight_units;
    const double *output_bias;
};

/* As the tensors, after (slots) each; by_query (slots, batch, queries). Zeros at first. That of
   output_bias stays so but with `grad_mass` and a sink: it moves all scores of a row alike, and no
   weight. */
struct pe_network_grads {
    double *by_query, *hidden_weight, *hidden_bias, *output_weight, *output_bias;
};

/* score += table[h, k_index[j] - q_index[i] + zero], clamped at its ends; int64 indices
   (1|batch, tokens). Of keys that follow each other, those whose index rises by 1 are read at once.
   The gradient of the table is of float64. */
struct pe_grid {
    struct pe_table table;
    const int64_t *q_index;
    int64_t q_index_step;
    const int64_t *k_index;
    int64_t k_index_step;
};

/* Order and document of every query or key (batch, tokens). NULL where they count from 0, the
   queries being the last of the keys, and where all is one document. Steps are between rows of the
   batch, 0 where they are shared. */
struct pe_tokens {
    const int64_t *order;
    int64_t order_step;
    const int64_t *document;
    int64_t document_step;
};

/* Distance is order of the key - order of the query.

   out = softmax(scale * (q . k + vectors) + table + slopes + offsets + network + grid, where
   visible; sink beside) v + values.

   Tensors (batch, heads, tokens, width) of `type`; strides count elements, the last dimension is
   contiguous. The arithmetic is float32, float64 for float64. Pointers
   to terms that are not there are NULL. attention_struct.py lists the same fields. */
struct pe_attention {
    int64_t type, backward;
    int64_t batch, heads, key_heads, queries, keys, width, value_width;
    const void *q;
    int64_t q_stride[3];
    const void *k;
    int64_t k_stride[3];
    const void *v;
    int64_t v_stride[3];
    /* Where key is `zone` tokens or more behind the query by order, q_far . k_far stands for q . k.
       Shapes as q and k; NULL where there are no zones. */
    const void *q_far;
    int64_t q_far_stride[3];
    const void *k_far;
    int64_t k_far_stride[3];
    int64_t zone;

    /* score += table[h, distance + zero] */
    struct pe_table table;
    /* score -= past[h] * |distance|, future[h] where the key is ahead. */
    const double *past, *future;
    /* score += q_offset[i] + k_offset[j]; (1|batch, heads, tokens). */
    const double *q_offset;
    int64_t q_offset_step;
    const double *k_offset;
    int64_t k_offset_step;
    struct pe_table on_query, on_key, on_value;
    /* score += by_count[i, count], linear between steps, where count sums sigmoid(scale * content)
       over the visible keys from j to the last; (batch, heads, queries, steps), of the arithmetic's
       type. Not beside vectors. */
    const void *by_count;
    void *by_count_grad;
    int64_t by_count_steps;
    struct pe_network network;
    struct pe_grid grid;
    /* A logit of each head (heads) in the softmax of its rows, of a key without a value. */
    const double *sink;

    struct pe_tokens q_tokens, k_tokens;
    const uint8_t *valid;
    int64_t valid_step;
    /* What draws the pairs whose weight is dropped, where dropout is above 0. */
    const int64_t *seed;
    double scale;
    /* window < 0 where there is none, and at most 2**62. */
    int64_t causal, window, sinks, prefix;
    /* Tokens see those whose order // chunk is their own; 0 where all are one chunk. */
    int64_t chunk;
    /* The share of the weights that are zero for the values; the others are scaled by
       1 / (1 - dropout). */
    double dropout;
    /* Whether a gradient may be asked for: Python then gives `exact_out` too. */
    int64_t learns;

    void *out;
    /* The output before it is rounded to `type`, of the arithmetic's type. The forward pass writes
       it where it is not NULL; the backward pass reads it and not `out`, for gradients that are sums
       over all tokens would add up the errors of rounding. */
    void *exact_out;
    /* Of both. */
    int64_t out_stride[3];
    /* Of each row the greatest score, in units of log 16, and the sum of exp(score - greatest), the
       sink among them. */
    void *peak, *mass;

    const void *grad_out;
    int64_t grad_stride[3];
    /* Of `mass`, as if `peak` were a constant: what the log of a row's sum of weights learns by.
       (batch, heads, queries) of the arithmetic's type, NULL where nobody asks for that log. */
    const void *grad_mass;
    void *q_grad;
    int64_t q_grad_stride[3];
    void *k_grad;
    int64_t k_grad_stride[3];
    void *v_grad;
    int64_t v_grad_stride[3];
    void *q_far_grad;
    int64_t q_far_grad_stride[3];
    void *k_far_grad;
    int64_t k_far_grad_stride[3];
    /* (slots, heads) each, and (chunks, batch, heads, tokens) each, zeros at first. */
    double *past_grad, *future_grad, *q_offset_grad, *k_offset_grad;
    struct pe_network_grads network_grads;
    /* (slots, heads), zeros at first. */
    double *sink_grad;

    /* Worker w does every workers-th task, so that sums have one order; it adds into slot w, or
       into 0 where there is but one. A task of the backward pass is every chunks-th tile of keys,
       or block of queries that count, of one row of the batch and one key head. */
    int64_t workers, chunks, slots;
    /* Which zone a pass is about; the kernel sets it. */
    int64_t in_far;
    /* Scratch, as many bytes as pe_attention_*_scratch says of this call. */
    void *memory;
};

#endif
