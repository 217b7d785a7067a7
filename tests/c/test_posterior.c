/* test_posterior.c - pooling and order mapping in plain C. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "posterior/exponential.h"
#include "posterior/order.h"
#include "posterior/posterior.h"

enum { N_MAX = 97, S_MAX = 13, MARGIN = 8 };

static const unsigned char POISON = 0xa5;

/* Results with poisoned margins on both sides of every array. */
typedef struct guarded {
    double posterior[MARGIN + N_MAX * PF_OPTION_MAX + MARGIN];
    double margin_nats[MARGIN + N_MAX + MARGIN];
    int64_t answer[MARGIN + N_MAX + MARGIN];
    unsigned char n_tied[MARGIN + N_MAX + MARGIN];
    int64_t n_valid[MARGIN + N_MAX + MARGIN];
    int64_t pass_answer[MARGIN + N_MAX * S_MAX + MARGIN];
    double pass_margin_nats[MARGIN + N_MAX * S_MAX + MARGIN];
    unsigned char pass_state[MARGIN + N_MAX * S_MAX + MARGIN];
} guarded;

static guarded memory;
static double logp[N_MAX * S_MAX * PF_OPTION_MAX];
static int64_t n_option_item[N_MAX];
static uint64_t tie_seed[N_MAX];

static pf_fused
poisoned_results(void)
{
    memset(&memory, POISON, sizeof memory);
    return (pf_fused){
            .posterior = memory.posterior + MARGIN,
            .margin_nats = memory.margin_nats + MARGIN,
            .answer = memory.answer + MARGIN,
            .n_tied = memory.n_tied + MARGIN,
            .n_valid = memory.n_valid + MARGIN,
            .pass_answer = memory.pass_answer + MARGIN,
            .pass_margin_nats = memory.pass_margin_nats + MARGIN,
            .pass_state = memory.pass_state + MARGIN,
    };
}

static bool
is_poison(const void *from, size_t n_bytes)
{
    const unsigned char *bytes = from;

    for (size_t i = 0; i < n_bytes; i++) {
        if (bytes[i] != POISON) {
            return false;
        }
    }
    return true;
}

/* the margins around an array of n entries are as they were */
#define CHECK_MARGINS(array, n)                                                        \
    do {                                                                               \
        CHECK(is_poison(array, MARGIN * sizeof *(array)));                             \
        CHECK(is_poison((array) + MARGIN + (n), MARGIN * sizeof *(array)));            \
    } while (0)

static void
fill(size_t n_value, uint64_t seed)
{
    pf_rng rng = {seed};

    for (size_t i = 0; i < n_value; i++) {
        logp[i] = (double)(pf_rng_next(&rng) >> 11) * 0x1p-53 * 12.0 - 9.0;
    }
}

/* one pass by the book */
static void
plain_softmax(const double *row, size_t n_option, double *prob)
{
    double top = -INFINITY;
    double total = 0.0;

    for (size_t k = 0; k < n_option; k++) {
        top = fmax(top, row[k]);
    }
    for (size_t k = 0; k < n_option; k++) {
        prob[k] = exp(row[k] - top);
        total += prob[k];
    }
    for (size_t k = 0; k < n_option; k++) {
        prob[k] /= total;
    }
}

static void
check_item(const pf_pass_batch *batch, size_t item, const pf_fused *fused)
{
    const size_t n_option = (size_t)batch->n_option_item[item];
    const double *row = batch->logp + item * batch->n_pass * batch->n_option;
    double mean[PF_OPTION_MAX] = {0};
    double prob[PF_OPTION_MAX];
    double total = 0.0;

    for (size_t s = 0; s < batch->n_pass; s++) {
        plain_softmax(row + s * batch->n_option, n_option, prob);
        for (size_t k = 0; k < n_option; k++) {
            mean[k] += prob[k] / (double)batch->n_pass;
        }
        CHECK(fused->pass_state[item * batch->n_pass + s] == PF_PASS_VALID);
    }
    for (size_t k = 0; k < batch->n_option; k++) {
        const double got = fused->posterior[item * batch->n_option + k];

        CHECK(fabs(got - mean[k]) <= 1e-14);
        CHECK(mean[k] <= mean[fused->answer[item]]);
        total += got;
    }
    CHECK(fabs(total - 1.0) <= 1e-15 * 8);
    CHECK(fused->n_valid[item] == (int64_t)batch->n_pass);
    CHECK(fused->n_tied[item] == 1);
    CHECK(fused->margin_nats[item] > 0.0);
}

static void
check_shape(size_t n_item, size_t n_pass, size_t n_option)
{
    const pf_fused fused = poisoned_results();
    const pf_pass_batch batch = {
            logp, n_option_item, tie_seed, n_item, n_pass, n_option};

    fill(n_item * n_pass * n_option, n_item + n_option);
    for (size_t i = 0; i < n_item; i++) {
        n_option_item[i] = (int64_t)(n_option - (n_option > 2 ? i % 2 : 0));
        tie_seed[i] = i;
    }
    CHECK(pf_posterior_fuse(&batch, PF_POOL_LINEAR, PF_MISSING_COMPLETE, &fused) ==
            PF_OK);
    for (size_t i = 0; i < n_item; i++) {
        check_item(&batch, i, &fused);
    }
    CHECK_MARGINS(memory.posterior, n_item * n_option);
    CHECK_MARGINS(memory.margin_nats, n_item);
    CHECK_MARGINS(memory.answer, n_item);
    CHECK_MARGINS(memory.n_tied, n_item);
    CHECK_MARGINS(memory.n_valid, n_item);
    CHECK_MARGINS(memory.pass_answer, n_item * n_pass);
    CHECK_MARGINS(memory.pass_margin_nats, n_item * n_pass);
    CHECK_MARGINS(memory.pass_state, n_item * n_pass);
}

/* without the results of the passes the others have the same bits */
static void
check_without_passes(size_t n_item, size_t n_pass, size_t n_option)
{
    static guarded whole;
    const pf_pass_batch batch = {
            logp, n_option_item, tie_seed, n_item, n_pass, n_option};
    pf_fused fused;

    check_shape(n_item, n_pass, n_option);
    whole = memory;
    fused = poisoned_results();
    fused.pass_answer = NULL;
    fused.pass_margin_nats = NULL;
    CHECK(pf_posterior_fuse(&batch, PF_POOL_LINEAR, PF_MISSING_COMPLETE, &fused) ==
            PF_OK);
    CHECK(memcmp(memory.posterior, whole.posterior, sizeof whole.posterior) == 0);
    CHECK(memcmp(memory.margin_nats, whole.margin_nats, sizeof whole.margin_nats) == 0);
    CHECK(memcmp(memory.answer, whole.answer, sizeof whole.answer) == 0);
    CHECK(memcmp(memory.n_tied, whole.n_tied, sizeof whole.n_tied) == 0);
    CHECK(memcmp(memory.n_valid, whole.n_valid, sizeof whole.n_valid) == 0);
    CHECK(memcmp(memory.pass_state, whole.pass_state, sizeof whole.pass_state) == 0);
    CHECK(is_poison(memory.pass_answer, sizeof memory.pass_answer));
    CHECK(is_poison(memory.pass_margin_nats, sizeof memory.pass_margin_nats));
}

static void
check_invalid_passes(void)
{
    static const double rows[5][3] = {
            {0.0, NAN, 1.0},
            {0.0, INFINITY, NAN},
            {INFINITY, 0.0, 1.0},
            {-INFINITY, -INFINITY, -INFINITY},
            {-INFINITY, 2.0, -INFINITY},
    };
    static const unsigned char states[5] = {
            PF_PASS_NAN, PF_PASS_NAN, PF_PASS_INFINITE, PF_PASS_EMPTY, PF_PASS_VALID};
    const pf_fused fused = poisoned_results();
    const uint64_t seed[1] = {0};
    const pf_pass_batch batch = {&rows[0][0], NULL, seed, 1, 5, 3};

    CHECK(pf_posterior_fuse(&batch, PF_POOL_LINEAR, PF_MISSING_COMPLETE, &fused) ==
            PF_OK);
    CHECK(memcmp(fused.pass_state, states, sizeof states) == 0);
    CHECK(fused.answer[0] == -1 && fused.n_tied[0] == 0 && fused.n_valid[0] == 1);
    CHECK(isnan(fused.margin_nats[0]) && isnan(fused.posterior[1]));
    CHECK(fused.pass_answer[0] == -1 && isnan(fused.pass_margin_nats[0]));

    CHECK(pf_posterior_fuse(&batch, PF_POOL_LINEAR, PF_MISSING_AVAILABLE, &fused) ==
            PF_OK);
    CHECK(fused.answer[0] == 1 && fused.posterior[1] == 1.0);
    CHECK(fused.posterior[0] == 0.0 && isinf(fused.margin_nats[0]));
}

static void
check_ties_and_vetoes(void)
{
    static const double mirror[2][2] = {{1.0, 0.0}, {0.0, 1.0}};
    static const double veto[2][2] = {{0.0, -INFINITY}, {-INFINITY, 0.0}};
    const pf_fused fused = poisoned_results();
    const uint64_t seed[1] = {3};
    pf_pass_batch batch = {&mirror[0][0], NULL, seed, 1, 2, 2};
    const unsigned char both[2] = {1, 1};

    CHECK(pf_posterior_fuse(&batch, PF_POOL_LINEAR, PF_MISSING_COMPLETE, &fused) ==
            PF_OK);
    CHECK(fused.n_tied[0] == 2 && fused.margin_nats[0] == 0.0);
    CHECK(fused.answer[0] == (int64_t)pf_tie_break(3, both, 2));

    batch.logp = &veto[0][0];
    CHECK(pf_posterior_fuse(&batch, PF_POOL_LOGLINEAR, PF_MISSING_COMPLETE, &fused) ==
            PF_OK);
    CHECK(fused.answer[0] == -1 && fused.n_valid[0] == 2);
}

static void
check_bad_arguments(void)
{
    const pf_fused fused = poisoned_results();
    const uint64_t seed[1] = {0};
    int64_t n_option[1] = {4};
    pf_pass_batch batch = {logp, n_option, seed, 1, 1, 3};

    CHECK(pf_posterior_fuse(&batch, PF_POOL_LINEAR, PF_MISSING_COMPLETE, &fused) ==
            PF_EINVAL);
    n_option[0] = 0;
    CHECK(pf_posterior_fuse(&batch, PF_POOL_LINEAR, PF_MISSING_COMPLETE, &fused) ==
            PF_EINVAL);
    batch = (pf_pass_batch){logp, NULL, seed, 1, 0, 3};
    CHECK(pf_posterior_fuse(&batch, PF_POOL_LINEAR, PF_MISSING_COMPLETE, &fused) ==
            PF_EINVAL);
    batch = (pf_pass_batch){logp, NULL, seed, 1, 1, PF_OPTION_MAX + 1};
    CHECK(pf_posterior_fuse(&batch, PF_POOL_LINEAR, PF_MISSING_COMPLETE, &fused) ==
            PF_EINVAL);
    CHECK(is_poison(&memory, sizeof memory));
}

static void
check_exponential(void)
{
    CHECK(pf_exp_nonpositive(0.0) == 1.0);
    CHECK(pf_exp_nonpositive(-0.0) == 1.0);
    CHECK(pf_exp_nonpositive(-INFINITY) == 0.0);
    CHECK(pf_exp_nonpositive(-DBL_MAX) == 0.0);
    CHECK(pf_exp_nonpositive(-709.0) == 0.0);
    CHECK(pf_exp_nonpositive(-708.4) >= 0.0 && pf_exp_nonpositive(-708.4) < DBL_MIN);
    CHECK(isnan(pf_exp_nonpositive((double)NAN)));
    CHECK(pf_exp_nonpositive(-DBL_MIN) == 1.0);
    for (int i = 0; i <= 70800; i++) {
        const double x = -0.01 * i;
        const double want = exp(x);

        if (x >= -708.0) {
            CHECK(fabs(pf_exp_nonpositive(x) - want) <= 2.0 * DBL_EPSILON * want);
        }
    }
}

static void
check_orders(void)
{
    static const int64_t order[3][4] = {{0, 1, 2, 3}, {2, 0, 3, 1}, {3, 2, 1, 0}};
    static const int64_t wrong[2][3] = {{0, 1, 2}, {0, 2, 2}};
    static const int64_t far[1][3] = {{0, 1, INT64_MAX}};
    pf_order_set set = {&order[0][0], 3, 4};
    double letter[24];
    double content[24 + 2];
    double back[24];
    size_t bad_row;

    CHECK(pf_order_check(&set, &bad_row) == PF_OK && bad_row == 3);
    for (size_t i = 0; i < 24; i++) {
        letter[i] = (double)i;
    }
    content[0] = content[25] = -7.0;
    pf_order_to_content(&set, 2, letter, content + 1);
    CHECK(content[0] == -7.0 && content[25] == -7.0);
    CHECK(content[1 + 4 + 2] == 4.0 && content[1 + 12 + 11] == 20.0);
    pf_order_to_letters(&set, 2, content + 1, back);
    CHECK(memcmp(letter, back, sizeof back) == 0);

    set = (pf_order_set){&wrong[0][0], 2, 3};
    CHECK(pf_order_check(&set, &bad_row) == PF_OK && bad_row == 1);
    set = (pf_order_set){&far[0][0], 1, 3};
    CHECK(pf_order_check(&set, &bad_row) == PF_OK && bad_row == 0);
    set = (pf_order_set){NULL, 0, 5};
    CHECK(pf_order_check(&set, &bad_row) == PF_OK && bad_row == 0);
    set = (pf_order_set){NULL, 0, 0};
    CHECK(pf_order_check(&set, &bad_row) == PF_EINVAL);
    set.n_option = PF_OPTION_MAX + 1;
    CHECK(pf_order_check(&set, &bad_row) == PF_EINVAL);
}

int
main(void)
{
    static const size_t shapes[][3] = {{0, 3, 4}, {1, 1, 2}, {1, 3, 4}, {7, 2, 5},
            {31, 3, 3}, {32, 1, 4}, {33, 3, 5}, {97, 13, 8}, {3, 2, PF_OPTION_MAX}};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_without_passes(shapes[i][0], shapes[i][1], shapes[i][2]);
    }
    check_invalid_passes();
    check_ties_and_vetoes();
    check_bad_arguments();
    check_exponential();
    check_orders();
    return check_report("posterior");
}
