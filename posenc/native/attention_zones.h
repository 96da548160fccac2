/* Zones: pairs of an order distance under `zone` read q and k, those beyond q_far and k_far.

   Each zone is a pass of its own over its part of the pairs, as if it were a call: the softmax goes
   on from one to the next, and so do the gradients of what both share. */

#include "attention.h"

INLINE int64_t zones_of(const struct pe_attention *p) { return p->q_far ? 2 : 1; }

/* Zone 0 is the near one, or all pairs where there are no zones; zone 1 is the far one. */
static struct pe_attention call_of_zone(const struct pe_attention *p, int64_t zone) {
    struct pe_attention own = *p;
    own.in_far = zone;
    if (!zone) return own;
    own.q = p->q_far;
    own.k = p->k_far;
    memcpy(own.q_stride, p->q_far_stride, sizeof own.q_stride);
    memcpy(own.k_stride, p->k_far_stride, sizeof own.k_stride);
    own.q_grad = p->q_far_grad;
    own.k_grad = p->k_far_grad;
    memcpy(own.q_grad_stride, p->q_far_grad_stride, sizeof own.q_grad_stride);
    memcpy(own.k_grad_stride, p->k_far_grad_stride, sizeof own.k_grad_stride);
    return own;
}

/* The part of a meeting's band that lies in the zone of this call. */
INLINE struct band in_zone(const struct pe_attention *p, int64_t step, struct band band) {
    if (!p->q_far) return band;
    if (p->in_far)
        band.last = least(band.last, -p->zone - step);
    else
        band.first = most(band.first, 1 - p->zone - step);
    return band;
}
