// uses: stats
/* test_resample.c - rankings, resampled sums and matched votes in plain C. */
#include "check.h"
#include "full_memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "stats/matched.h"
#include "stats/ranking.h"
#include "stats/resample.h"

static void
check_indices(void)
{
    static const uint32_t bounds[] = {1, 2, 3, 581, 0x80000001u, UINT32_MAX};
    static const size_t n_draws[] = {0, 1, 2, 63, 64, 65, 257};
    uint32_t index[260];

    for (size_t b = 0; b < 6; b++) {
        for (size_t d = 0; d < 7; d++) {
            pf_rng rng = pf_rng_stream(b, d);

            memset(index, 0xa5, sizeof index);
            pf_rng_indices(&rng, bounds[b], n_draws[d], index + 1);
            CHECK(index[0] == 0xa5a5a5a5u && index[n_draws[d] + 1] == 0xa5a5a5a5u);
            for (size_t i = 0; i < n_draws[d]; i++) {
                CHECK(index[i + 1] < bounds[b]);
            }
        }
    }
}

/* streams of one seed differ, and from those of the next seed */
static void
check_streams(void)
{
    uint64_t seen[64];

    for (size_t i = 0; i < 64; i++) {
        pf_rng rng = pf_rng_stream(i / 32, i % 32);

        seen[i] = pf_rng_next(&rng);
        for (size_t j = 0; j < i && i / 32 == j / 32; j++) {
            CHECK(seen[i] != seen[j]);
        }
    }
}

/* by pairs: 2 U of the positives, and the same for the negatives */
static void
check_placements(size_t n_item, uint64_t n_score)
{
    unsigned char positive[41];
    unsigned char begins[41];
    uint64_t score[41];
    int64_t placement2[43];
    pf_rng rng = {n_item};

    for (size_t i = 0; i < n_item; i++) {
        const bool climbs = i == 0 || pf_rng_below(&rng, n_score) > 0;

        score[i] = (i == 0 ? 0 : score[i - 1]) + climbs;
        begins[i] = climbs;
        positive[i] = pf_rng_below(&rng, 2) > 0;
    }
    placement2[0] = placement2[n_item + 1] = -77;
    CHECK(pf_ranking_placements(
                  &(pf_ranking){positive, begins, n_item}, placement2 + 1) == PF_OK);
    CHECK(placement2[0] == -77 && placement2[n_item + 1] == -77);
    for (size_t i = 0; i < n_item; i++) {
        int64_t expected = 0;

        for (size_t j = 0; j < n_item; j++) {
            if (positive[j] != positive[i]) {
                expected += score[j] == score[i] ? 1 : 2 * (score[j] < score[i]);
            }
        }
        CHECK(placement2[i + 1] == expected);
    }
}

static void
check_area(void)
{
    static const unsigned char separated[4] = {0, 0, 1, 1};
    static const unsigned char mixed[4] = {0, 1, 0, 1};
    static const unsigned char begins[4] = {1, 1, 1, 1};
    static const unsigned char tied[4] = {1, 0, 0, 0};
    double area[202];
    double again[202];
    pf_ranking ranking = {separated, begins, 4};
    double sum = 0.0;
    int n_defined = 0;

    area[0] = area[201] = -7.0;
    CHECK(pf_ranking_bootstrap(&ranking, 5, 200, area + 1) == PF_OK);
    CHECK(area[0] == -7.0 && area[201] == -7.0);
    for (size_t r = 1; r <= 200; r++) {
        CHECK(isnan(area[r]) || area[r] == 1.0);
    }
    ranking = (pf_ranking){mixed, tied, 4};
    CHECK(pf_ranking_bootstrap(&ranking, 5, 200, area + 1) == PF_OK);
    for (size_t r = 1; r <= 200; r++) {
        CHECK(isnan(area[r]) || area[r] == 0.5);
    }
    ranking.begins_score = begins;
    CHECK(pf_ranking_bootstrap(&ranking, 5, 200, area + 1) == PF_OK);
    CHECK(pf_ranking_bootstrap(&ranking, 5, 100, again + 1) == PF_OK);
    CHECK(memcmp(area + 1, again + 1, 100 * sizeof *area) == 0);
    for (size_t r = 1; r <= 200; r++) {
        if (!isnan(area[r])) {
            sum += area[r];
            n_defined++;
        }
    }
    CHECK(n_defined > 150 && fabs(sum / n_defined - 0.75) < 0.1);
    ranking.n_item = 0;
    CHECK(pf_ranking_bootstrap(&ranking, 5, 1, area) == PF_EINVAL);
    CHECK(pf_ranking_placements(&ranking, NULL) == PF_OK);
    ranking.n_item = (size_t)INT32_MAX + 1;
    CHECK(pf_ranking_placements(&ranking, NULL) == PF_EINVAL);
}

/* mean and variance of the resampled sums of both ways of drawing */
static void
check_sums(size_t n_class, int64_t n_here)
{
    enum { N_RESAMPLE = 4000 };
    static double sums[2 * N_RESAMPLE + 2];
    double numerator[40];
    double denominator[40];
    int64_t n_cluster[40];
    const pf_cluster_classes classes = {numerator, denominator, n_cluster, n_class};
    const double g = (double)n_here * (double)n_class;
    double mean = 0.0;
    double squares = 0.0;
    double expected = 0.0;
    double variance = 0.0;

    for (size_t c = 0; c < n_class; c++) {
        numerator[c] = (double)(c % 5) - 1.0;
        denominator[c] = 1.0;
        n_cluster[c] = n_here;
        expected += numerator[c] / (double)n_class;
    }
    for (size_t c = 0; c < n_class; c++) {
        variance += pow(numerator[c] - expected, 2.0) / (double)n_class;
    }
    sums[0] = sums[2 * N_RESAMPLE + 1] = -7.0;
    CHECK(pf_resample_sums(&classes, 11, N_RESAMPLE, sums + 1) == PF_OK);
    CHECK(sums[0] == -7.0 && sums[2 * N_RESAMPLE + 1] == -7.0);
    for (size_t r = 0; r < N_RESAMPLE; r++) {
        CHECK(sums[2 * r + 2] == g);
        mean += sums[2 * r + 1] / N_RESAMPLE;
        squares += pow(sums[2 * r + 1] - g * expected, 2.0) / N_RESAMPLE;
    }
    /* 5 standard errors, and for the variance 5 of a normal one */
    CHECK(fabs(mean - g * expected) <= 1e-9 + 5.0 * sqrt(g * variance / N_RESAMPLE));
    CHECK(fabs(squares - g * variance) <= 5.0 * g * variance * sqrt(2.0 / N_RESAMPLE));
}

static void
check_sum_arguments(void)
{
    const double one[2] = {1.0, 1.0};
    int64_t n_cluster[2] = {1, 0};
    pf_cluster_classes classes = {one, one, n_cluster, 2};
    double sums[4];
    uint32_t index[6];

    CHECK(pf_resample_sums(&classes, 0, 2, sums) == PF_EINVAL);
    n_cluster[1] = INT32_MAX;
    CHECK(pf_resample_sums(&classes, 0, 2, sums) == PF_EINVAL);
    classes.n_class = 0;
    CHECK(pf_resample_sums(&classes, 0, 2, sums) == PF_EINVAL);
    CHECK(pf_resample_indices(0, 0, 1, index) == PF_EINVAL);
    CHECK(pf_resample_indices((size_t)INT32_MAX + 1, 0, 1, index) == PF_EINVAL);
    CHECK(pf_resample_indices(3, 0, 2, index) == PF_OK);
    for (size_t i = 0; i < 6; i++) {
        CHECK(index[i] < 3);
    }
}

enum { N_ORDER = 6, N_PHASE = 3, N_ITEM = 23 };

/* the lowest answer with most votes, and whether others have as many */
static int64_t
slow_vote(const int64_t *answer, const unsigned char *half, int wanted, bool *tied)
{
    int64_t count[5] = {0};
    int64_t best = 0;

    *tied = false;
    for (size_t o = 0; o < N_ORDER; o++) {
        count[answer[o]] += half[o] == wanted;
    }
    for (int64_t k = 1; k < 5; k++) {
        if (count[k] >= count[best]) {
            *tied = count[k] == count[best];
            best = count[k] > count[best] ? k : best;
        }
    }
    return best;
}

static void
check_matched(size_t n_split)
{
    static int64_t answer[N_ITEM * N_PHASE * N_ORDER];
    static unsigned char half[300 * N_ORDER];
    int64_t n_option[N_ITEM];
    int64_t out[5][N_ITEM + 2];
    const pf_matched_table table = {answer, n_option, NULL, N_ITEM, N_PHASE, N_ORDER};
    const pf_split_set splits = {half, n_split};
    const pf_matched_counts counts = {
            out[0] + 1, out[1] + 1, out[2] + 1, out[3] + 1, out[4] + 1};
    pf_rng rng = {n_split};

    memset(out, 0xa5, sizeof out);
    for (size_t i = 0; i < N_ITEM * N_PHASE * N_ORDER; i++) {
        answer[i] = (int64_t)pf_rng_below(&rng, 5);
    }
    for (size_t i = 0; i < N_ITEM; i++) {
        n_option[i] = 5;
    }
    for (size_t i = 0; i < n_split; i++) {
        int64_t order[N_ORDER];

        pf_rng_permutation(&rng, N_ORDER, order);
        for (size_t o = 0; o < N_ORDER; o++) {
            half[i * N_ORDER + (size_t)order[o]] = (unsigned char)(o % 3);
        }
    }
    CHECK(pf_matched_count(&table, &splits, &counts) == PF_OK);
    for (size_t i = 0; i < N_ITEM; i++) {
        int64_t expected[3] = {0};

        for (size_t cell = 0; cell < n_split * N_PHASE * N_PHASE; cell++) {
            const unsigned char *row = half + cell / (N_PHASE * N_PHASE) * N_ORDER;
            const size_t s = cell / N_PHASE % N_PHASE;
            const size_t t = cell % N_PHASE;
            bool tied[2];
            const int64_t a =
                    slow_vote(answer + (i * N_PHASE + s) * N_ORDER, row, 1, &tied[0]);
            const int64_t b =
                    slow_vote(answer + (i * N_PHASE + t) * N_ORDER, row, 2, &tied[1]);

            expected[s != t] += a != b;
            expected[2] += s == t ? tied[0] + tied[1] : 0;
        }
        CHECK(out[0][i + 1] == expected[0]);
        CHECK(out[1][i + 1] == expected[1]);
        CHECK(out[2][i + 1] == expected[2]);
    }
    for (size_t i = 0; i < 5; i++) {
        CHECK(out[i][0] == out[i][N_ITEM + 1]); /* both are still 0xa5a5.. */
    }
}

static void
check_shuffle(void)
{
    static int64_t answer[N_ITEM * N_PHASE * N_ORDER];
    static int64_t shuffled[N_ITEM * N_PHASE * N_ORDER + 2];
    uint64_t seed[N_ITEM];
    const pf_matched_table table = {answer, NULL, NULL, N_ITEM, N_PHASE, N_ORDER};
    size_t n_moved = 0;

    for (size_t i = 0; i < N_ITEM * N_PHASE * N_ORDER; i++) {
        answer[i] = (int64_t)i;
    }
    for (size_t i = 0; i < N_ITEM; i++) {
        seed[i] = i;
    }
    shuffled[0] = shuffled[N_ITEM * N_PHASE * N_ORDER + 1] = -77;
    pf_matched_shuffle(&table, seed, 3, shuffled + 1);
    CHECK(shuffled[0] == -77 && shuffled[N_ITEM * N_PHASE * N_ORDER + 1] == -77);
    for (size_t i = 0; i < N_ITEM; i++) {
        for (size_t o = 0; o < N_ORDER; o++) {
            int64_t sum = 0;

            for (size_t s = 0; s < N_PHASE; s++) {
                const size_t at = (i * N_PHASE + s) * N_ORDER + o;

                sum += shuffled[at + 1] - answer[at];
                n_moved += shuffled[at + 1] != answer[at];
                CHECK(shuffled[at + 1] % N_ORDER == (int64_t)o);
            }
            CHECK(sum == 0);
        }
    }
    CHECK(n_moved > N_ITEM * N_ORDER);
}

static void
check_matched_arguments(void)
{
    int64_t answer[34];
    int64_t n_option = 2;
    unsigned char half[17] = {1, 2};
    int64_t out[3];
    pf_matched_table table = {answer, &n_option, NULL, 1, 1, 2};
    const pf_split_set splits = {half, 1};
    int64_t agree[2];
    const pf_matched_counts counts = {out, out + 1, out + 2, NULL, NULL};
    const pf_matched_counts shared = {out, out + 1, out + 2, agree, agree + 1};

    memset(answer, 0, sizeof answer);
    CHECK(pf_matched_count(&table, &splits, &counts) == PF_OK);
    answer[1] = 2;
    CHECK(pf_matched_count(&table, &splits, &counts) == PF_EINVAL);
    answer[1] = -1;
    CHECK(pf_matched_count(&table, &splits, &counts) == PF_EINVAL);
    answer[1] = 1;
    half[1] = 1;
    CHECK(pf_matched_count(&table, &splits, &counts) == PF_EINVAL);
    half[1] = 3;
    CHECK(pf_matched_count(&table, &splits, &counts) == PF_EINVAL);
    half[1] = 2;
    n_option = PF_OPTION_MAX + 1;
    CHECK(pf_matched_count(&table, &splits, &counts) == PF_EINVAL);
    table.n_order = 17; /* seventeen different answers */
    n_option = 32;
    for (size_t i = 0; i < 17; i++) {
        answer[i] = (int64_t)i;
    }
    CHECK(pf_matched_count(&table, &splits, &counts) == PF_OK);
    CHECK(pf_matched_count(&table, &splits, &shared) == PF_EINVAL);
    answer[16] = 0;
    CHECK(pf_matched_count(&table, &splits, &shared) == PF_OK);
    table.n_order = 256;
    CHECK(pf_matched_count(&table, &splits, &counts) == PF_EINVAL);
}

static void
check_full_memory(void)
{
    static const unsigned char flags[2] = {1, 0};
    static const int64_t answer[2] = {0, 1};
    static const double value[2] = {1.0, 2.0};
    static const int64_t one[2] = {1, 1};
    const pf_ranking ranking = {flags, flags, 2};
    const pf_cluster_classes classes = {value, value, one, 2};
    const pf_matched_table table = {answer, answer + 1, NULL, 1, 1, 2};
    const unsigned char half[2] = {1, 2};
    const pf_split_set splits = {half, 1};
    int64_t out[3];
    double made[4];
    const pf_matched_counts counts = {out, out + 1, out + 2, NULL, NULL};

    if (__real_malloc == NULL) {
        return; /* not wrapped here */
    }
    memory_is_full = true;
    CHECK(pf_ranking_bootstrap(&ranking, 0, 1, made) == PF_ENOMEM);
    CHECK(pf_resample_sums(&classes, 0, 1, made) == PF_ENOMEM);
    CHECK(pf_matched_count(&table, &splits, &counts) == PF_ENOMEM);
    memory_is_full = false;
}

int
main(void)
{
    static const size_t n_items[] = {0, 1, 2, 41};

    check_indices();
    check_streams();
    for (size_t i = 0; i < 4; i++) {
        check_placements(n_items[i], 2);
        check_placements(n_items[i], 1000);
    }
    check_area();
    check_sums(1, 1);
    check_sums(2, 97);
    check_sums(5, 130);
    check_sums(37, 2);
    check_sum_arguments();
    check_matched(0);
    check_matched(1);
    check_matched(128);
    check_matched(131);
    check_shuffle();
    check_matched_arguments();
    check_full_memory();
    return check_report("resample");
}
