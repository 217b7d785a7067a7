/* random.c - see random.h. */
#include "base/random.h"

#include <assert.h>

uint64_t
pf_hash_fnv1a64(const unsigned char *bytes, size_t n_bytes)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n_bytes; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

uint64_t
pf_rng_below(pf_rng *rng, uint64_t bound)
{
    uint64_t spare;
    uint64_t draw;

    assert(bound > 0);
    /* 2^64 mod bound draws at the top have no full set of remainders */
    spare = (UINT64_MAX % bound + 1) % bound;
    do {
        draw = pf_rng_next(rng);
    } while (draw > UINT64_MAX - spare);
    return draw % bound;
}

void
pf_rng_permutation(pf_rng *rng, size_t n_value, int64_t *permutation)
{
    for (size_t i = 0; i < n_value; i++) {
        permutation[i] = (int64_t)i;
    }
    for (size_t i = n_value; i > 1; i--) {
        size_t j = (size_t)pf_rng_below(rng, i);
        int64_t last = permutation[i - 1];

        permutation[i - 1] = permutation[j];
        permutation[j] = last;
    }
}

/* as pf_rng_indices, one half of a word after the other */
static void
draw_indices(pf_rng *rng, uint32_t bound, size_t n_draw, uint32_t *index)
{
    const uint32_t spare = (uint32_t)-bound % bound; /* 2^32 mod bound */
    size_t i = 0;

    while (i < n_draw) {
        uint64_t word = pf_rng_next(rng);

        for (int half = 0; half < 2 && i < n_draw; half++, word >>= 32) {
            const uint64_t product = (word & UINT32_MAX) * bound;

            index[i] = (uint32_t)(product >> 32);
            i += (uint32_t)product >= spare;
        }
    }
}

void
pf_rng_indices(pf_rng *rng, uint32_t bound, size_t n_draw, uint32_t *index)
{
    enum { N_WORD = 32 };
    const uint32_t spare = (uint32_t)-bound % bound;

    assert(bound > 0);
    for (; n_draw >= 2 * N_WORD; n_draw -= 2 * N_WORD, index += 2 * N_WORD) {
        pf_rng block = *rng;
        uint32_t n_refused = 0;

        for (size_t i = 0; i < N_WORD; i++) {
            const uint64_t word = pf_rng_next(&block);
            const uint64_t low = (word & UINT32_MAX) * bound;
            const uint64_t high = (word >> 32) * bound;

            n_refused += (uint32_t)low < spare;
            n_refused += (uint32_t)high < spare;
            index[2 * i] = (uint32_t)(low >> 32);
            index[2 * i + 1] = (uint32_t)(high >> 32);
        }
        if (n_refused == 0) {
            *rng = block;
        }
        else {
            draw_indices(rng, bound, 2 * N_WORD, index);
        }
    }
    draw_indices(rng, bound, n_draw, index);
}

size_t
pf_tie_break(uint64_t seed, const unsigned char *tied, size_t n_option)
{
    pf_rng rng = {seed};
    int64_t preferred[PF_OPTION_MAX];

    assert(n_option >= 1 && n_option <= PF_OPTION_MAX);
    pf_rng_permutation(&rng, n_option, preferred);
    for (size_t i = 0; i < n_option; i++) {
        if (tied[preferred[i]]) {
            return (size_t)preferred[i];
        }
    }
    assert(false);
    return 0;
}
