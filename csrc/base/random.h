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

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014): any 64-bit state is a good seed. */
typedef struct pf_rng {
    uint64_t state;
} pf_rng;

uint64_t pf_rng_next(pf_rng *rng);

/* Uniform on [0, bound), bound >= 1; draws that would favour small values are thrown
 * away. */
uint64_t pf_rng_below(pf_rng *rng, uint64_t bound);

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
