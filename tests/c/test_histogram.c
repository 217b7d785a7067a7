// uses: frames
/* test_histogram.c - counts of colours and their change, against one pixel and one bin
 * at a time. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "frames/histogram.h"

enum { PX_MAX = 4099, FRAME_MAX = 5, MARGIN = 8 };

static uint8_t rgb[PX_MAX * 3];
static uint32_t counts[MARGIN + FRAME_MAX * PF_HISTOGRAM_CELLS + MARGIN];
static double change[MARGIN + FRAME_MAX + MARGIN];

static void
fill(uint32_t seed, uint32_t spread)
{
    for (size_t i = 0; i < sizeof rgb; i++) {
        seed = seed * 1664525u + 1013904223u;
        rgb[i] = (uint8_t)((seed >> 24) % spread);
    }
}

static void
check_counts(size_t n_px)
{
    static const uint32_t POISON = 0xdeadbeef;
    uint32_t *count = counts + MARGIN;

    for (size_t i = 0; i < MARGIN + PF_HISTOGRAM_CELLS + MARGIN; i++) {
        counts[i] = POISON;
    }
    CHECK(pf_histogram_count(rgb, n_px, count) == PF_OK);
    for (size_t cell = 0; cell < PF_HISTOGRAM_CELLS; cell++) {
        uint32_t want = 0;

        for (size_t p = 0; p < n_px; p++) {
            want += (size_t)rgb[3 * p + cell / PF_HISTOGRAM_BINS] / 8 ==
                    cell % PF_HISTOGRAM_BINS;
        }
        CHECK(count[cell] == want);
    }
    for (size_t i = 0; i < MARGIN; i++) {
        CHECK(counts[i] == POISON);
        CHECK(count[PF_HISTOGRAM_CELLS + i] == POISON);
    }
}

/* The first form of the formula, in long double. */
static double
plain_change(const uint32_t *p, const uint32_t *q)
{
    long double shared = 0.0L, n_p = 0.0L, n_q = 0.0L;

    for (size_t i = 0; i < PF_HISTOGRAM_CELLS; i++) {
        shared += sqrtl((long double)p[i] * (long double)q[i]);
        n_p += p[i];
        n_q += q[i];
    }
    return (double)sqrtl(fmaxl(1.0L - shared / sqrtl(n_p * n_q), 0.0L));
}

static void
check_changes(size_t n_frame)
{
    static const double POISON = -7.25;
    const uint32_t *count = counts + MARGIN;

    for (size_t f = 0; f < n_frame; f++) {
        fill((uint32_t)f, f % 2 == 0 ? 256 : 40);
        /* sizes differ, as where the resolution changes */
        CHECK(pf_histogram_count(rgb, PX_MAX - 13 * f,
                      counts + MARGIN + f * PF_HISTOGRAM_CELLS) == PF_OK);
    }
    for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
        change[i] = POISON;
    }
    CHECK(pf_histogram_change(count, n_frame, change + MARGIN) == PF_OK);
    for (size_t f = 0; f < n_frame; f++) {
        const uint32_t *now = count + f * PF_HISTOGRAM_CELLS;
        const double want = f == 0 ? 0.0 : plain_change(now - PF_HISTOGRAM_CELLS, now);

        CHECK(fabs(change[MARGIN + f] - want) <= 1e-12);
    }
    for (size_t i = 0; i < MARGIN; i++) {
        CHECK(change[i] <= POISON && change[i] >= POISON);
        CHECK(change[MARGIN + n_frame + i] <= POISON);
        CHECK(change[MARGIN + n_frame + i] >= POISON);
    }
}

/* Equal frames are exactly 0 apart, black and white exactly 1. */
static void
check_extremes(void)
{
    uint32_t *count = counts + MARGIN;
    const uint8_t values[] = {0, 0, 255, 255};

    for (size_t f = 0; f < 4; f++) {
        memset(rgb, values[f], sizeof rgb);
        CHECK(pf_histogram_count(rgb, PX_MAX, count + f * PF_HISTOGRAM_CELLS) == PF_OK);
    }
    CHECK(pf_histogram_change(count, 4, change) == PF_OK);
    CHECK(change[1] >= 0.0 && change[1] <= 0.0);
    CHECK(change[2] >= 1.0 - 1e-15 && change[2] <= 1.0);
    CHECK(change[3] >= 0.0 && change[3] <= 0.0);
    fill(3, 256);
    CHECK(pf_histogram_count(rgb, 1031, count) == PF_OK);
    memcpy(count + PF_HISTOGRAM_CELLS, count, PF_HISTOGRAM_CELLS * sizeof *count);
    CHECK(pf_histogram_change(count, 2, change) == PF_OK);
    CHECK(change[1] >= 0.0 && change[1] <= 0.0);
}

int
main(void)
{
    static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 1031, PX_MAX};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fill((uint32_t)i, 256);
        check_counts(sizes[i]);
        fill((uint32_t)i, 3);
        check_counts(sizes[i]);
    }
    for (size_t n_frame = 0; n_frame <= FRAME_MAX; n_frame++) {
        check_changes(n_frame);
    }
    check_extremes();
    CHECK(pf_histogram_count(rgb, (size_t)UINT32_MAX + 1, counts) == PF_EOVERFLOW);
    memset(counts, 0, sizeof counts);
    CHECK(pf_histogram_change(counts, 1, change) == PF_EINVAL);
    CHECK(pf_histogram_change(counts, 0, change) == PF_OK);
    return check_report("histogram");
}
