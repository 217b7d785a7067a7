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
pf_rng_next(pf_rng *rng)
{
    uint64_t mixed;

    rng->state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = rng->state;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
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
