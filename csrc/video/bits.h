/* bits.h - a forward reader of bits; past the end it gives zeros and says so. */
#ifndef PF_VIDEO_BITS_H
#define PF_VIDEO_BITS_H

#include "base/pf.h"

typedef struct pf_bits {
    const uint8_t *data;
    size_t n_bit;
    size_t at;
    bool overrun;
} pf_bits;

static inline uint32_t
pf_read_bit(pf_bits *b)
{
    uint32_t value;

    if (b->at >= b->n_bit) {
        b->overrun = true;
        return 0;
    }
    value = (b->data[b->at >> 3] >> (7 - (b->at & 7))) & 1u;
    b->at++;
    return value;
}

static inline uint32_t
pf_read_bits(pf_bits *b, int n_bit)
{
    uint32_t value = 0;

    for (int i = 0; i < n_bit; i++) {
        value = value << 1 | pf_read_bit(b);
    }
    return value;
}

/* Exponential-Golomb code; codes above 31 bits count as an overrun */
static inline uint32_t
pf_read_ue(pf_bits *b)
{
    int n_zero = 0;
    uint32_t value = 1;

    while (!b->overrun && pf_read_bit(b) == 0) {
        n_zero++;
        if (n_zero > 31) {
            b->overrun = true;
        }
    }
    for (int i = 0; i < n_zero && !b->overrun; i++) {
        value = (value << 1) | pf_read_bit(b);
    }
    return b->overrun ? 0 : value - 1;
}

#endif /* PF_VIDEO_BITS_H */
