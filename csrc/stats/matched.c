/* matched.c - see matched.h. Splits travel in blocks, one split a lane: what is done to
 * a lane is a plain loop over bytes. */
#include "stats/matched.h"
#include "base/dispatch.h"

#include <stdlib.h>
#include <string.h>

enum { LANES = 128, N_HALF = 2, N_ORDER_MAX = 255 };

/* The votes of one block of splits in one phase of one item. */
typedef struct phase_votes {
    uint8_t winner[N_HALF][LANES];
    uint32_t tie_set[N_HALF][LANES]; /* bit k: answer k has the most votes */
    uint32_t share[N_HALF][LANES];   /* PF_MATCHED_UNIT over the size of the set */
} phase_votes;

typedef struct item_answers {
    uint8_t *answer; /* (n_phase, n_order), 0 .. n_answer-1 */
    size_t n_answer;
    size_t n_order;
} item_answers;

typedef struct split_block {
    uint8_t vote[N_HALF][N_ORDER_MAX][LANES]; /* 1 where the order is in the half */
    size_t n_lane;
} split_block;

static bool
splits_are_sound(const pf_matched_table *table, const pf_split_set *splits)
{
    if (table->n_phase < 1 || table->n_order < 1 || table->n_order > N_ORDER_MAX) {
        return false;
    }
    for (size_t i = 0; i < splits->n_split; i++) {
        const unsigned char *half = splits->half + i * table->n_order;
        size_t n_vote[3] = {0};

        for (size_t o = 0; o < table->n_order; o++) {
            if (half[o] > 2) {
                return false;
            }
            n_vote[half[o]]++;
        }
        if (n_vote[1] == 0 || n_vote[2] == 0) {
            return false;
        }
    }
    return true;
}

static void
load_splits(
        const pf_split_set *splits, size_t n_order, size_t first, split_block *block)
{
    const size_t left = splits->n_split - first;

    block->n_lane = left < LANES ? left : LANES;
    memset(block->vote, 0, sizeof block->vote);
    for (size_t lane = 0; lane < block->n_lane; lane++) {
        const unsigned char *half = splits->half + (first + lane) * n_order;

        for (size_t o = 0; o < n_order; o++) {
            if (half[o] > 0) {
                block->vote[half[o] - 1][o][lane] = 1;
            }
        }
    }
}

/*
 * The answers of an item as 0 .. n-1, those preferred in a tie first: the winner is
 * then the lowest of the tied. Returns n, or 0 when an answer is out of range.
 */
static size_t
number_answers(const pf_matched_table *table, size_t item, uint8_t *answer)
{
    const size_t n_pass = table->n_phase * table->n_order;
    const int64_t *given = table->answer + item * n_pass;
    const int64_t n_option = table->n_option_item[item];
    int64_t preferred[PF_OPTION_MAX];
    uint8_t number[PF_OPTION_MAX];
    bool seen[PF_OPTION_MAX] = {false};
    size_t n_answer = 0;

    if (n_option < 1 || n_option > PF_OPTION_MAX) {
        return 0;
    }
    for (size_t i = 0; i < n_pass; i++) {
        if (given[i] < 0 || given[i] >= n_option) {
            return 0;
        }
        seen[given[i]] = true;
    }
    for (int64_t k = 0; k < n_option; k++) {
        preferred[k] = k;
    }
    if (table->tie_seed != NULL) {
        pf_rng rng = {table->tie_seed[item]};

        pf_rng_permutation(&rng, (size_t)n_option, preferred);
    }
    for (int64_t k = 0; k < n_option; k++) {
        if (seen[preferred[k]]) {
            number[preferred[k]] = (uint8_t)n_answer++;
        }
    }
    for (size_t i = 0; i < n_pass; i++) {
        answer[i] = number[given[i]];
    }
    return n_answer;
}

PF_BODY void
count_votes(const item_answers *item, size_t phase, uint8_t (*vote)[LANES],
        uint8_t (*count)[LANES])
{
    const uint8_t *answer = item->answer + phase * item->n_order;

    memset(count, 0, item->n_answer * sizeof *count);
    for (size_t o = 0; o < item->n_order; o++) {
        uint8_t *own = count[answer[o]];

        for (size_t lane = 0; lane < LANES; lane++) {
            own[lane] = (uint8_t)(own[lane] + vote[o][lane]);
        }
    }
}

/* most and winner of every lane; returns the number of ties */
PF_BODY int64_t
elect(uint8_t (*count)[LANES], size_t n_answer, uint8_t *most, uint8_t *winner)
{
    uint8_t tied[LANES] = {0};
    uint8_t n_tied = 0; /* of LANES at most */

    memset(most, 0, LANES);
    memset(winner, 0, LANES);
    for (size_t k = 0; k < n_answer; k++) {
        const uint8_t index = (uint8_t)k;

        for (size_t lane = 0; lane < LANES; lane++) {
            const uint8_t n = count[k][lane];
            const uint8_t above = n > most[lane];
            const uint8_t equal = n == most[lane];

            winner[lane] = above ? index : winner[lane];
            tied[lane] = above ? 0 : (uint8_t)(tied[lane] | equal);
            most[lane] = above ? n : most[lane];
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        n_tied = (uint8_t)(n_tied + (tied[lane] & (most[lane] > 0)));
    }
    return n_tied;
}

PF_BODY void
find_tie_sets(uint8_t (*count)[LANES], size_t n_answer, const uint8_t *most,
        phase_votes *votes, int half)
{
    uint32_t size[LANES] = {0};

    memset(votes->tie_set[half], 0, sizeof votes->tie_set[half]);
    for (size_t k = 0; k < n_answer; k++) {
        for (size_t lane = 0; lane < LANES; lane++) {
            const uint32_t tied = count[k][lane] == most[lane];

            votes->tie_set[half][lane] |= tied << k;
            size[lane] += tied;
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        votes->share[half][lane] = PF_MATCHED_UNIT / size[lane];
    }
}

PF_BODY int64_t
count_differences(const uint8_t *a, const uint8_t *b)
{
    uint8_t n = 0; /* of LANES at most */

    for (size_t lane = 0; lane < LANES; lane++) {
        n = (uint8_t)(n + (a[lane] != b[lane]));
    }
    return n;
}

PF_BODY int64_t
sum_agreement(const phase_votes *first, const phase_votes *second, size_t n_lane)
{
    int64_t sum = 0;

    for (size_t lane = 0; lane < n_lane; lane++) {
        uint32_t both = first->tie_set[0][lane] & second->tie_set[1][lane];
        int64_t n_both = 0;

        for (; both != 0; both &= both - 1) {
            n_both++;
        }
        sum += n_both * first->share[0][lane] * second->share[1][lane];
    }
    return sum;
}

/* adds one block of splits to the counts of one item */
PF_BODY void
count_block(const item_answers *item, split_block *block, phase_votes *votes,
        size_t n_phase, const pf_matched_counts *counts)
{
    const bool wants_sets = counts->agree_within != NULL;

    for (size_t s = 0; s < n_phase; s++) {
        for (int half = 0; half < N_HALF; half++) {
            uint8_t count[PF_OPTION_MAX][LANES];
            uint8_t most[LANES];

            count_votes(item, s, block->vote[half], count);
            *counts->n_tied +=
                    elect(count, item->n_answer, most, votes[s].winner[half]);
            if (wants_sets) {
                find_tie_sets(count, item->n_answer, most, votes + s, half);
            }
        }
    }
    for (size_t s = 0; s < n_phase; s++) {
        for (size_t t = 0; t < n_phase; t++) {
            const int64_t n = count_differences(votes[s].winner[0], votes[t].winner[1]);
            const int64_t agree =
                    wants_sets ? sum_agreement(votes + s, votes + t, block->n_lane) : 0;

            *(s == t ? counts->n_within : counts->n_across) += n;
            if (wants_sets) {
                *(s == t ? counts->agree_within : counts->agree_across) += agree;
            }
        }
    }
}

typedef void (*block_counter)(const item_answers *item, split_block *block,
        phase_votes *votes, size_t n_phase, const pf_matched_counts *counts);

static void
count_block_scalar(const item_answers *item, split_block *block, phase_votes *votes,
        size_t n_phase, const pf_matched_counts *counts)
{
    count_block(item, block, votes, n_phase, counts);
}

#if PF_X86
PF_TARGET_AVX2 static void
count_block_avx2(const item_answers *item, split_block *block, phase_votes *votes,
        size_t n_phase, const pf_matched_counts *counts)
{
    count_block(item, block, votes, n_phase, counts);
}

PF_TARGET_AVX512 static void
count_block_avx512(const item_answers *item, split_block *block, phase_votes *votes,
        size_t n_phase, const pf_matched_counts *counts)
{
    count_block(item, block, votes, n_phase, counts);
}
#endif

static block_counter
choose_counter(void)
{
#if PF_X86
    const pf_cpu_level level = pf_cpu_best();

    if (level >= PF_CPU_AVX512) {
        return count_block_avx512;
    }
    if (level >= PF_CPU_AVX2) {
        return count_block_avx2;
    }
#endif
    return count_block_scalar;
}

/* the counts of item i alone */
static pf_matched_counts
counts_of(const pf_matched_counts *counts, size_t i)
{
    const bool wants_sets = counts->agree_within != NULL;

    return (pf_matched_counts){
            .n_within = counts->n_within + i,
            .n_across = counts->n_across + i,
            .n_tied = counts->n_tied + i,
            .agree_within = wants_sets ? counts->agree_within + i : NULL,
            .agree_across = wants_sets ? counts->agree_across + i : NULL,
    };
}

static void
clear_counts(const pf_matched_counts *counts, size_t n_item)
{
    for (size_t i = 0; i < n_item; i++) {
        const pf_matched_counts own = counts_of(counts, i);

        *own.n_within = 0;
        *own.n_across = 0;
        *own.n_tied = 0;
        if (own.agree_within != NULL) {
            *own.agree_within = 0;
            *own.agree_across = 0;
        }
    }
}

pf_status
pf_matched_count(const pf_matched_table *table, const pf_split_set *splits,
        const pf_matched_counts *counts)
{
    const block_counter count = choose_counter();
    item_answers item = {.n_order = table->n_order};
    split_block *block = NULL;
    phase_votes *votes = NULL;
    pf_status st = PF_ENOMEM;
    size_t n_pass;

    if (!splits_are_sound(table, splits)) {
        return PF_EINVAL;
    }
    if (!pf_mul_size(table->n_phase, table->n_order, &n_pass)) {
        return PF_EOVERFLOW;
    }
    block = malloc(sizeof *block);
    votes = calloc(table->n_phase, sizeof *votes);
    item.answer = malloc(n_pass);
    if (block == NULL || votes == NULL || item.answer == NULL) {
        goto fail;
    }
    clear_counts(counts, table->n_item);
    st = PF_EINVAL;
    for (size_t first = 0; first < splits->n_split; first += LANES) {
        load_splits(splits, table->n_order, first, block);
        for (size_t i = 0; i < table->n_item; i++) {
            const pf_matched_counts own = counts_of(counts, i);

            item.n_answer = number_answers(table, i, item.answer);
            if (item.n_answer == 0 || (own.agree_within != NULL &&
                                              item.n_answer > PF_MATCHED_ANSWER_MAX)) {
                goto fail;
            }
            count(&item, block, votes, table->n_phase, &own);
        }
    }
    st = PF_OK;

fail:
    free(item.answer);
    free(votes);
    free(block);
    return st;
}

void
pf_matched_shuffle(const pf_matched_table *table, const uint64_t *item_seed,
        uint64_t seed, int64_t *PF_RESTRICT shuffled)
{
    const size_t n_order = table->n_order;
    const size_t n_pass = table->n_phase * n_order;

    if (n_pass > 0) {
        memcpy(shuffled, table->answer, table->n_item * n_pass * sizeof *shuffled);
    }
    for (size_t i = 0; i < table->n_item; i++) {
        int64_t *answer = shuffled + i * n_pass;
        pf_rng rng = pf_rng_stream(seed, item_seed[i]);

        for (size_t o = 0; o < n_order; o++) {
            for (size_t s = table->n_phase; s > 1; s--) {
                int64_t *last = answer + (s - 1) * n_order + o;
                int64_t *other = answer + pf_rng_below(&rng, s) * n_order + o;
                const int64_t kept = *last;

                *last = *other;
                *other = kept;
            }
        }
    }
}
