// uses: frames
/* test_fit.c - pictures that come one by one, to several sizes, and with each
 * allocation failing once. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "full_memory.h"
#include "frames/fit.h"

/* Three groups, two of one size, from two shares; slots come out of order. */
static void
test_fit(void)
{
    const pf_resize_options options = {PF_FILTER_BICUBIC, PF_FIRST_AUTO, PF_CPU_SCALAR};
    const float mean[3] = {0.0F, 0.25F, 0.5F};
    const float std[3] = {1.0F, 0.5F, 0.25F};
    const pf_size size = {5, 7};
    uint8_t *rgb = malloc(5 * 7 * 3);
    uint8_t *same = malloc(2 * 5 * 7 * 3);
    uint8_t *small = malloc(3 * 2 * 3 * 3);
    float *planes = malloc(sizeof *planes * 2 * 3 * 3 * 1);
    pf_fit_group group[3] = {
            {size, 2, same, NULL}, {{2, 3}, 3, small, NULL}, {{3, 1}, 2, NULL, planes}};
    const size_t order[7] = {6, 0, 3, 5, 2, 1, 4};
    pf_normalise normalise;
    pf_fit fit;

    CHECK(pf_normalise_init(&normalise, mean, std) == PF_OK);
    CHECK(pf_fit_init(&fit, size, (pf_fit_groups){group, 3}, &options, &normalise, 2) ==
            PF_OK);
    for (size_t i = 0; i < 7; i++) {
        memset(rgb, (int)(10 * order[i]), 5 * 7 * 3);
        CHECK(pf_fit_take(&fit, i % 2, order[i], rgb) == PF_OK);
    }
    for (size_t i = 0; i < 2 * 5 * 7 * 3; i++) {
        CHECK(same[i] == 10 * (i / 105));
    }
    for (size_t i = 0; i < 3 * 2 * 3 * 3; i++) {
        CHECK(small[i] == 20 + 10 * (i / 18));
    }
    for (size_t i = 0; i < 18; i++) {
        CHECK(planes[i] == normalise.table[i / 3 % 3][50 + 10 * (i / 9)]);
    }
    CHECK(pf_fit_take(&fit, 0, 7, rgb) == PF_EINVAL);
    CHECK(pf_fit_take(&fit, 2, 0, rgb) == PF_EINVAL);
    pf_fit_free(&fit);
    pf_fit_free(&fit);
    CHECK(pf_fit_init(&fit, size, (pf_fit_groups){group, 3}, &options, NULL, 2) ==
            PF_EINVAL);
    pf_fit_free(&fit);
    group[1].size.width_px = 0;
    CHECK(pf_fit_init(&fit, size, (pf_fit_groups){group, 2}, &options, NULL, 2) ==
            PF_EINVAL);
    pf_fit_free(&fit);
    CHECK(pf_fit_init(&fit, size, (pf_fit_groups){NULL, 0}, &options, NULL, 1) ==
            PF_OK);
    CHECK(pf_fit_take(&fit, 0, 0, rgb) == PF_EINVAL);
    pf_fit_free(&fit);
    free(rgb);
    free(same);
    free(small);
    free(planes);
}

/* Every allocation of a fit fails once; what was made is freed. */
static void
test_failing_fit(void)
{
    const pf_resize_options options = {PF_FILTER_BICUBIC, PF_FIRST_AUTO, pf_cpu_best()};
    uint8_t out[2 * 3 * 3];
    const pf_fit_group group = {{2, 3}, 1, out, NULL};
    pf_status st = PF_ENOMEM;

    for (long n = 0; st != PF_OK && n < 100; n++) {
        pf_fit fit;

        n_until_failure = n;
        st = pf_fit_init(
                &fit, (pf_size){5, 7}, (pf_fit_groups){&group, 1}, &options, NULL, 2);
        CHECK(st == PF_OK || st == PF_ENOMEM);
        CHECK(st != PF_OK || n > 2);
        n_until_failure = -1;
        pf_fit_free(&fit);
    }
    CHECK(st == PF_OK);
}

int
main(void)
{
    test_fit();
    test_failing_fit();
    return check_report("fit");
}
