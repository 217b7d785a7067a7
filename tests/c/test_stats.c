/* test_stats.c - the seeded generator, flips and votes in plain C. */
#include "check.h"
#include "full_memory.h"

#include <math.h>
#include <string.h>

#include <stdlib.h>

#include "base/random.h"
#include "stats/consensus.h"
#include "stats/flip_summary.h"
#include "stats/flips.h"

enum { N_ITEM = 37, N_PASS_MAX = 13, MARGIN = 4 };

static const int64_t POISON = -77;

/* n entries with poisoned margins */
typedef struct guarded {
    int64_t before[MARGIN];
    int64_t data[N_ITEM * 16];
    int64_t after[MARGIN];
} guarded;

static void
poison(guarded *array)
{
    for (size_t i = 0; i < sizeof *array / sizeof(int64_t); i++) {
        ((int64_t *)array)[i] = POISON;
    }
}

/* entries from n on, and the margins, are as they were */
static bool
untouched(const guarded *array, size_t n)
{
    for (size_t i = 0; i < MARGIN; i++) {
        if (array->before[i] != POISON || array->after[i] != POISON) {
            return false;
        }
    }
    for (size_t i = n; i < N_ITEM * 16; i++) {
        if (array->data[i] != POISON) {
            return false;
        }
    }
    return true;
}

static void
check_random(void)
{
    /* first outputs of the reference implementation for seed 1234567 */
    static const uint64_t published[5] = {UINT64_C(6457827717110365317),
            UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
            UINT64_C(4593380528125082431), UINT64_C(16408922859458223821)};
    pf_rng rng = {1234567};
    int64_t seen[6] = {0};
    int64_t drawn[7];

    for (size_t i = 0; i < 5; i++) {
        CHECK(pf_rng_next(&rng) == published[i]);
    }
    CHECK(pf_hash_fnv1a64(NULL, 0) == UINT64_C(0xcbf29ce484222325));
    CHECK(pf_hash_fnv1a64((const unsigned char *)"foobar", 6) ==
            UINT64_C(0x85944171f73967e8));
    for (size_t i = 0; i < 6000; i++) {
        seen[pf_rng_below(&rng, 6)]++;
    }
    for (size_t i = 0; i < 6; i++) {
        CHECK(seen[i] > 850 && seen[i] < 1150); /* 5 standard deviations */
    }
    CHECK(pf_rng_below(&rng, 1) == 0);
    /* half of all draws are refused here */
    CHECK(pf_rng_below(&rng, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
    for (size_t n = 0; n < 7; n++) {
        uint64_t found = 0;

        drawn[n] = POISON;
        pf_rng_permutation(&rng, n, drawn);
        CHECK(drawn[n] == POISON);
        for (size_t i = 0; i < n; i++) {
            found |= UINT64_C(1) << drawn[i];
        }
        CHECK(found == (UINT64_C(1) << n) - 1);
    }
}

static void
check_tie_break(void)
{
    const unsigned char tied[4] = {1, 0, 0, 1};
    const unsigned char one[4] = {0, 0, 1, 0};
    size_t n_last = 0;

    for (uint64_t seed = 0; seed < 1000; seed++) {
        const size_t chosen = pf_tie_break(seed, tied, 4);

        CHECK(chosen == 0 || chosen == 3);
        n_last += chosen == 3;
        CHECK(pf_tie_break(seed, one, 4) == 2);
    }
    CHECK(n_last > 420 && n_last < 580);
}

/* the counters for many answers give what the packed ones gave */
static void
check_wide_counters(const pf_answer_table *table, const pf_flip_counts *packed)
{
    static int64_t out[4][N_ITEM];
    const pf_flip_counts counts = {out[0], out[1], out[2], out[3]};
    pf_answer_table wide = *table;

    wide.n_answer = PF_ANSWER_MAX;
    CHECK(pf_flips_count(&wide, &counts) == PF_OK);
    CHECK(memcmp(out[0], packed->n_valid, sizeof out[0]) == 0);
    CHECK(memcmp(out[1], packed->n_agreeing, sizeof out[1]) == 0);
    CHECK(memcmp(out[2], packed->n_distinct, sizeof out[2]) == 0);
    CHECK(memcmp(out[3], packed->n_modal, sizeof out[3]) == 0);
}

static void
check_flips(size_t n_pass)
{
    static int64_t answer[N_ITEM * N_PASS_MAX];
    static guarded valid;
    static guarded agreeing;
    static guarded distinct;
    static guarded modal;
    static guarded differ;
    static guarded both;
    const pf_answer_table table = {answer, N_ITEM, n_pass, 5};
    const pf_flip_counts counts = {
            valid.data, agreeing.data, distinct.data, modal.data};
    guarded *all[6] = {&valid, &agreeing, &distinct, &modal, &differ, &both};
    pf_rng rng = {n_pass};
    int64_t n_pair_differ = 0;
    int64_t n_matrix_differ = 0;

    for (size_t i = 0; i < 6; i++) {
        poison(all[i]);
    }
    for (size_t i = 0; i < N_ITEM * n_pass; i++) {
        answer[i] = (int64_t)pf_rng_below(&rng, 6) - 1;
    }
    CHECK(pf_flips_count(&table, &counts) == PF_OK);
    CHECK(pf_flips_pairs(&table, NULL, differ.data, both.data) == PF_OK);
    check_wide_counters(&table, &counts);
    for (size_t i = 0; i < N_ITEM; i++) {
        const int64_t m = valid.data[i];
        int64_t pairs = 0;

        for (size_t s = 0; s < n_pass; s++) {
            for (size_t t = 0; t < n_pass; t++) {
                const int64_t a = answer[i * n_pass + s];
                const int64_t b = answer[i * n_pass + t];

                pairs += s != t && a >= 0 && a == b;
                n_pair_differ += a >= 0 && b >= 0 && a != b;
            }
        }
        CHECK(agreeing.data[i] == pairs);
        CHECK(modal.data[i] <= m && distinct.data[i] <= m);
        CHECK((distinct.data[i] == 1) == (m > 0 && modal.data[i] == m));
    }
    for (size_t cell = 0; cell < n_pass * n_pass; cell++) {
        n_matrix_differ += differ.data[cell];
    }
    CHECK(n_matrix_differ == n_pair_differ);
    for (size_t i = 0; i < 6; i++) {
        CHECK(untouched(all[i], i < 4 ? N_ITEM : n_pass * n_pass));
    }
}

/* all at once gives what the kernels for one thing each give */
static void
check_summary(size_t n_item, size_t n_pass, bool only_complete, uint64_t n_missing)
{
    enum { MAX = 400 };
    static int64_t answer[MAX * N_PASS_MAX];
    static int64_t count[4][MAX];
    static double pairwise[MAX + 2];
    static int8_t any[MAX + 2];
    static unsigned char used[MAX + 2];
    static unsigned char kept[MAX];
    int64_t by_valid[2][N_PASS_MAX + 3];
    int64_t pairs[4][N_PASS_MAX * N_PASS_MAX];
    const pf_answer_table table = {answer, n_item, n_pass, 5};
    const pf_flip_counts counts = {count[0], count[1], count[2], count[3]};
    pf_flip_summary made = {.pairwise = pairwise + 1,
            .any = any + 1,
            .used = used + 1,
            .n_item_valid = by_valid[0] + 1,
            .n_differ_valid = by_valid[1] + 1,
            .n_differ = pairs[0],
            .n_both = pairs[1]};
    pf_rng rng = {n_item + n_pass};
    int64_t n_flipped = 0;
    int64_t n_complete = 0;
    int64_t n_used = 0;

    memset(by_valid, 0xa5, sizeof by_valid);
    memset(any, 0x55, sizeof any);
    memset(used, 0x55, sizeof used);
    for (size_t i = 0; i < n_item * n_pass; i++) {
        const bool missing = n_missing > 0 && pf_rng_below(&rng, n_missing) == 0;

        answer[i] = missing ? -1 : (int64_t)pf_rng_below(&rng, 5);
    }
    CHECK(pf_flips_count(&table, &counts) == PF_OK);
    CHECK(pf_flips_summarize(&table, NULL, only_complete, &made) == PF_OK);
    for (size_t i = 0; i < n_item; i++) {
        const int64_t m = count[0][i];
        const int64_t n_pair = m * (m - 1);
        const bool complete = m == (int64_t)n_pass;

        kept[i] = complete || !only_complete;
        CHECK(used[i + 1] == (kept[i] && m >= 2));
        CHECK(any[i + 1] == (m >= 2 ? count[2][i] > 1 : -1));
        CHECK(m < 2 ? isnan(pairwise[i + 1])
                    : pairwise[i + 1] ==
                                (double)(n_pair - count[1][i]) / (double)n_pair);
        n_flipped += used[i + 1] && count[2][i] > 1;
        n_complete += complete;
    }
    for (size_t m = 0; m <= n_pass; m++) {
        n_used += made.n_item_valid[m];
        CHECK(made.n_differ_valid[m] >= 0);
    }
    for (size_t i = 0; i < n_item; i++) {
        n_used -= used[i + 1];
    }
    CHECK(n_used == 0 && made.n_flipped == n_flipped && made.n_complete == n_complete);
    CHECK(used[0] == 0x55 && used[n_item + 1] == 0x55 && any[n_item + 1] == 0x55);
    CHECK(by_valid[0][0] == by_valid[0][n_pass + 2]); /* both still poisoned */
    CHECK(pf_flips_pairs(&table, kept, pairs[2], pairs[3]) == PF_OK);
    CHECK(memcmp(pairs[0], pairs[2], n_pass * n_pass * sizeof(int64_t)) == 0);
    CHECK(memcmp(pairs[1], pairs[3], n_pass * n_pass * sizeof(int64_t)) == 0);
}

static void
check_summaries(void)
{
    static const size_t n_items[] = {0, 1, 191, 192, 193, 400};
    static const size_t n_passes[] = {1, 2, 3, N_PASS_MAX};
    int64_t answer[2] = {0, INT64_MAX};
    double pairwise;
    int8_t any;
    unsigned char used;
    int64_t out[4][9];
    pf_flip_summary made = {
            &pairwise, &any, &used, out[0], out[1], out[2], out[3], 0, 0};
    pf_answer_table table = {answer, 1, 2, 5};

    for (size_t i = 0; i < 6; i++) {
        for (size_t p = 0; p < 4; p++) {
            check_summary(n_items[i], n_passes[p], true, 9);
            check_summary(n_items[i], n_passes[p], false, 3);
            check_summary(n_items[i], n_passes[p], true, 0);
        }
    }
    CHECK(pf_flips_summarize(&table, NULL, true, &made) == PF_EINVAL);
    answer[1] = INT64_MIN;
    CHECK(pf_flips_summarize(&table, NULL, true, &made) == PF_EINVAL);
    answer[1] = 5;
    CHECK(pf_flips_summarize(&table, NULL, true, &made) == PF_EINVAL);
    answer[1] = 4;
    CHECK(pf_flips_summarize(&table, NULL, true, &made) == PF_OK);
    CHECK(pairwise == 1.0 && any == 1 && used == 1 && out[2][1] == 1);
    table.n_pass = 256;
    CHECK(pf_flips_summarize(&table, NULL, true, &made) == PF_EINVAL);
}

static void
check_flip_arguments(void)
{
    int64_t answer[2] = {0, 5};
    int64_t out[4][4];
    const pf_flip_counts counts = {out[0], out[1], out[2], out[3]};
    pf_answer_table table = {answer, 1, 2, 5};

    CHECK(pf_flips_count(&table, &counts) == PF_EINVAL);
    answer[1] = -2;
    CHECK(pf_flips_pairs(&table, NULL, out[0], out[1]) == PF_EINVAL);
    answer[1] = 4;
    CHECK(pf_flips_count(&table, &counts) == PF_OK);
    table.n_answer = PF_ANSWER_MAX + 1;
    CHECK(pf_flips_count(&table, &counts) == PF_EINVAL);
    table = (pf_answer_table){answer, 0, 0, 5};
    CHECK(pf_flips_count(&table, &counts) == PF_EINVAL);
    table = (pf_answer_table){NULL, 0, 3, 5};
    CHECK(pf_flips_count(&table, &counts) == PF_OK);
}

static void
check_full_memory(void)
{
    static const int64_t answer[4] = {0, 1, 1, 1};
    const pf_answer_table table = {answer, 2, 2, 2};
    int64_t n_differ[4];
    int64_t n_both[4];

    memory_is_full = __real_malloc != NULL;
    CHECK(pf_flips_pairs(&table, NULL, n_differ, n_both) ==
            (memory_is_full ? PF_ENOMEM : PF_OK));
    memory_is_full = false;
    CHECK(pf_flips_pairs(&table, NULL, n_differ, n_both) == PF_OK);
    CHECK(n_differ[1] == 1 && n_both[1] == 2);
}

static void
check_rarefaction(void)
{
    static const int64_t count[2][3] = {{6, 3, 1}, {2, 0, 0}};
    static const int64_t negative[1][3] = {{2, -1, 0}};
    double rate[4] = {-7.0, -7.0, -7.0, -7.0};

    CHECK(pf_flips_expected_any(&count[0][0], 2, 3, 2, rate + 1) == PF_OK);
    CHECK(fabs(rate[1] - 0.6) < 1e-15 && rate[2] == 0.0);
    CHECK(rate[0] == -7.0 && rate[3] == -7.0);
    CHECK(pf_flips_expected_any(&count[0][0], 2, 3, 10, rate + 1) == PF_OK);
    CHECK(rate[1] == 1.0 && isnan(rate[2]));
    CHECK(pf_flips_expected_any(&count[0][0], 2, 3, 1, rate + 1) == PF_OK);
    CHECK(rate[1] == 0.0 && rate[2] == 0.0);
    CHECK(pf_flips_expected_any(&count[0][0], 2, 3, 0, rate) == PF_EINVAL);
    CHECK(pf_flips_expected_any(&negative[0][0], 1, 3, 2, rate) == PF_EINVAL);
}

static void
check_consensus(void)
{
    static const int64_t vote[4][4] = {
            {3, 2, 2, 3}, {1, 1, 1, 0}, {-1, -1, -1, -1}, {-1, 0, -1, -1}};
    static const int64_t n_option[4] = {4, 3, 4, 1};
    static const uint64_t seed[4] = {1, 2, 3, 4};
    static const double posterior[4][4] = {
            {0.5, 0.1, 0.1, 0.3}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
    const unsigned char tied[4] = {0, 0, 1, 1};
    static guarded answer;
    static guarded n_tied;
    static guarded count;
    pf_vote_table table = {&vote[0][0], n_option, seed, &posterior[0][0], 4, 4, 4};

    poison(&answer);
    poison(&n_tied);
    poison(&count);
    CHECK(pf_consensus_plurality(&table, PF_TIE_LOWEST, answer.data, n_tied.data,
                  count.data) == PF_OK);
    CHECK(answer.data[0] == 2 && n_tied.data[0] == 2 && count.data[3] == 2);
    CHECK(answer.data[1] == 1 && n_tied.data[1] == 1 && count.data[5] == 3);
    CHECK(answer.data[2] == -1 && n_tied.data[2] == 0);
    CHECK(answer.data[3] == 0 && n_tied.data[3] == 1);
    CHECK(untouched(&answer, 4) && untouched(&n_tied, 4) && untouched(&count, 16));
    CHECK(pf_consensus_plurality(
                  &table, PF_TIE_FIRST, answer.data, n_tied.data, count.data) == PF_OK);
    CHECK(answer.data[0] == 3);
    CHECK(pf_consensus_plurality(&table, PF_TIE_POSTERIOR, answer.data, n_tied.data,
                  count.data) == PF_OK);
    CHECK(answer.data[0] == 3);
    CHECK(pf_consensus_plurality(&table, PF_TIE_PRIORITY, answer.data, n_tied.data,
                  count.data) == PF_OK);
    CHECK(answer.data[0] == (int64_t)pf_tie_break(1, tied, 4));

    table.mean_posterior = NULL;
    CHECK(pf_consensus_plurality(&table, PF_TIE_POSTERIOR, answer.data, n_tied.data,
                  count.data) == PF_EINVAL);
    table.n_option = 3; /* below what the first item has */
    CHECK(pf_consensus_plurality(&table, PF_TIE_LOWEST, answer.data, n_tied.data,
                  count.data) == PF_EINVAL);
    table.n_option = PF_OPTION_MAX + 1;
    CHECK(pf_consensus_plurality(&table, PF_TIE_LOWEST, answer.data, n_tied.data,
                  count.data) == PF_EINVAL);
}

int
main(void)
{
    static const size_t n_passes[] = {1, 2, 3, N_PASS_MAX};

    check_random();
    check_tie_break();
    for (size_t i = 0; i < sizeof n_passes / sizeof *n_passes; i++) {
        check_flips(n_passes[i]);
    }
    check_summaries();
    check_flip_arguments();
    check_full_memory();
    check_rarefaction();
    check_consensus();
    return check_report("stats");
}
