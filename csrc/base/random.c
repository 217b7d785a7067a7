/* random.c - see random.h. */
#include "base/random.h"
#include "base/dispatch.h"

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

enum { N_WORD = 32 }; /* of a block of indices, two from a word */

/* two indices from each of N_WORD words, accepted or not; returns the refused ones */
PF_BODY uint32_t
draw_block(pf_rng rng, uint32_t bound, uint32_t spare, uint32_t *index)
{
    uint32_t n_refused = 0;

    for (size_t i = 0; i < N_WORD; i++) {
        const uint64_t word = pf_rng_next(&rng);
        const uint64_t low = (word & UINT32_MAX) * bound;
        const uint64_t high = (word >> 32) * bound;

        n_refused += (uint32_t)low < spare;
        n_refused += (uint32_t)high < spare;
        index[2 * i] = (uint32_t)(low >> 32);
        index[2 * i + 1] = (uint32_t)(high >> 32);
    }
    return n_refused;
}

typedef uint32_t (*block_drawer)(
        pf_rng rng, uint32_t bound, uint32_t spare, uint32_t *index);

static uint32_t
draw_block_scalar(pf_rng rng, uint32_t bound, uint32_t spare, uint32_t *index)
{
    return draw_block(rng, bound, spare, index);
}

#if PF_X86
/* has a product of 64-bit numbers; AVX2 has none */
PF_TARGET_AVX512 static uint32_t
draw_block_avx512(pf_rng rng, uint32_t bound, uint32_t spare, uint32_t *index)
{
    return draw_block(rng, bound, spare, index);
}
#endif

static block_drawer
choose_drawer(void)
{
#if PF_X86
    if (pf_cpu_best() >= PF_CPU_AVX512) {
        return draw_block_avx512;
    }
#endif
    return draw_block_scalar;
}

void
pf_rng_indices(pf_rng *rng, uint32_t bound, size_t n_draw, uint32_t *index)
{
    const uint32_t spare = (uint32_t)-bound % bound;
    const block_drawer draw = choose_drawer();

    assert(bound > 0);
    for (; n_draw >= 2 * N_WORD; n_draw -= 2 * N_WORD, index += 2 * N_WORD) {
        if (draw(*rng, bound, spare, index) == 0) {
            rng->state += N_WORD * PF_RNG_STEP;
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
