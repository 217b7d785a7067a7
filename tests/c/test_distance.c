// uses: frames
/* test_distance.c - distances of frames against sums one byte at a time. */
#include "check.h"

#include <math.h>
#include <string.h>

#include "frames/distance.h"

enum { PX_MAX = 12289, PAIR_MAX = 3, MARGIN = 8 };

static uint8_t first[PAIR_MAX * PX_MAX * 3];
static uint8_t second[PAIR_MAX * PX_MAX * 3];
static double result[MARGIN + PAIR_MAX + MARGIN];

static double
plain_distance(const uint8_t *a, const uint8_t *b, size_t n_px, pf_distance kind)
{
    double sum = 0.0;

    for (size_t i = 0; i < 3 * n_px && kind != PF_DISTANCE_HISTOGRAM; i++) {
        const double difference = (double)a[i] - (double)b[i];

        sum += kind == PF_DISTANCE_RMS ? difference * difference : fabs(difference);
    }
    for (size_t cell = 0; cell < 3 * 32 && kind == PF_DISTANCE_HISTOGRAM; cell++) {
        double more = 0.0;

        for (size_t p = 0; p < n_px; p++) {
            more += a[3 * p + cell % 3] / 8 == (int)(cell / 3);
            more -= b[3 * p + cell % 3] / 8 == (int)(cell / 3);
        }
        sum += fabs(more);
    }
    if (kind == PF_DISTANCE_HISTOGRAM) {
        return sum / (6.0 * (double)n_px);
    }
    sum /= 3.0 * (double)n_px;
    return (kind == PF_DISTANCE_RMS ? sqrt(sum) : sum) / 255.0;
}

static void
fill(uint32_t seed)
{
    for (size_t i = 0; i < sizeof first; i++) {
        seed = seed * 1664525u + 1013904223u;
        first[i] = (uint8_t)(seed >> 24);
        second[i] = (uint8_t)(seed >> 16);
    }
}

static void
check_size(size_t n_pair, size_t n_px, pf_distance kind)
{
    static const double POISON = -7.25;

    for (size_t i = 0; i < sizeof result / sizeof *result; i++) {
        result[i] = POISON;
    }
    CHECK(pf_distance_measure_pairs(
                  first, second, n_pair, n_px, kind, result + MARGIN) == PF_OK);
    for (size_t i = 0; i < n_pair; i++) {
        const size_t at = i * n_px * 3;
        const double want = plain_distance(first + at, second + at, n_px, kind);

        CHECK(fabs(result[MARGIN + i] - want) <= 1e-14);
    }
    for (size_t i = 0; i < MARGIN; i++) {
        CHECK(result[i] <= POISON && result[i] >= POISON);
        CHECK(result[MARGIN + n_pair + i] <= POISON);
        CHECK(result[MARGIN + n_pair + i] >= POISON);
    }
}

static void
check_extremes(void)
{
    memset(first, 0, sizeof first);
    memset(second, 255, sizeof second);
    for (int kind = 0; kind <= PF_DISTANCE_HISTOGRAM; kind++) {
        CHECK(pf_distance_measure_pairs(
                      first, second, 1, PX_MAX, (pf_distance)kind, result) == PF_OK);
        CHECK(result[0] >= 1.0 && result[0] <= 1.0);
        CHECK(pf_distance_measure_pairs(
                      first, first, 1, PX_MAX, (pf_distance)kind, result) == PF_OK);
        CHECK(result[0] >= 0.0 && result[0] <= 0.0);
    }
}

int
main(void)
{
    static const size_t sizes[] = {1, 2, 7, 10922, 10923, 10924, PX_MAX};

    for (int kind = 0; kind <= PF_DISTANCE_HISTOGRAM; kind++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            fill((uint32_t)i);
            for (size_t n_pair = 0; n_pair <= PAIR_MAX; n_pair += 3) {
                check_size(n_pair, sizes[i], (pf_distance)kind);
            }
        }
    }
    check_extremes();
    CHECK(pf_distance_measure_pairs(first, second, 1, 0, PF_DISTANCE_RMS, result) ==
            PF_EINVAL);
    CHECK(pf_distance_measure_pairs(first, second, 1, 1, (pf_distance)3, result) ==
            PF_EINVAL);
    CHECK(pf_distance_measure_pairs(first, second, 1, SIZE_MAX / 3, PF_DISTANCE_RMS,
                  result) == PF_EOVERFLOW);
    return check_report("distance");
}
