/* random.h - reproducible choices: a string hash, a counter-based generator, and the
 * permutations drawn from it. Nothing here depends on the machine, on Python or on
 * NumPy, so a seed means the same answer everywhere. */
#ifndef PF_RANDOM_H
#define PF_RANDOM_H

#include "base/pf.h"

/* Letters run out at 26; a power of two keeps the blocks of the kernels aligned. */
enum { PF_OPTION_MAX = 32 };

/* FNV-1a with the published 64-bit offset basis and prime; bytes may be NULL when
 * n_bytes is 0. */
uint64_t pf_hash_fnv1a64(const unsigned char *bytes, size_t n_bytes);

/* What the state grows by for each number: the state is a counter. */
#define PF_RNG_STEP UINT64_C(0x9e3779b97f4a7c15)

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014): any 64-bit state is a good seed. */
typedef struct pf_rng {
    uint64_t state;
} pf_rng;

static inline uint64_t
pf_rng_next(pf_rng *rng)
{
    uint64_t mixed;

    rng->state += PF_RNG_STEP;
    mixed = rng->state;
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* The generator of one replicate: started at output number `stream` of the generator
 * seeded with seed, so that any replicate can be made without the ones before. */
static inline pf_rng
pf_rng_stream(uint64_t seed, uint64_t stream)
{
    pf_rng rng = {seed + stream * PF_RNG_STEP};

    rng.state = pf_rng_next(&rng);
    return rng;
}

/* Uniform on [0, bound), bound >= 1; draws that would favour small values are thrown
 * away. */
uint64_t pf_rng_below(pf_rng *rng, uint64_t bound);

/*
 * Uniform on [0, bound), n_draw times: each from 32 bits of a word, low half first, as
 * the upper half of their product with bound; those that would favour some values are
 * thrown away.
 *
 * index (n_draw,), out; bound >= 1.
 */
void pf_rng_indices(pf_rng *rng, uint32_t bound, size_t n_draw, uint32_t *index);

/*
 * A uniform permutation of 0 .. n_value-1: Fisher-Yates from the last place down, each
 * partner from pf_rng_below.
 *
 * permutation (n_value,), out.
 */
void pf_rng_permutation(pf_rng *rng, size_t n_value, int64_t *permutation);

/*
 * The order in which tied options are preferred, the same for every arm of an item.
 *
 * Of the n_option options, those with tied[k] != 0 are tied; the result is the one that
 * comes first in the permutation seeded with seed (hash of the item's id XOR the run's
 * seed). At least one option must be tied.
 * n_option in 1 .. PF_OPTION_MAX.
 */
size_t pf_tie_break(uint64_t seed, const unsigned char *tied, size_t n_option);

#endif /* PF_RANDOM_H */
