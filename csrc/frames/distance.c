/* distance.c - see distance.h. Bytes are summed in runs that fit 32 bits, which is what
 * lets the loops vectorise. */
#include "frames/distance.h"
#include "base/dispatch.h"
#include "frames/histogram.h"

#include <math.h>
#include <stdlib.h>

/* 255^2 times this fits an int32_t */
enum { RUN_BYTES = 1 << 15 };

PF_BODY int32_t
absolute_run(const uint8_t *a, const uint8_t *b, size_t n_bytes)
{
    int32_t sum = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        sum += abs(a[i] - b[i]);
    }
    return sum;
}

PF_BODY int32_t
square_run(const uint8_t *a, const uint8_t *b, size_t n_bytes)
{
    int32_t sum = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        const int16_t difference = (int16_t)(a[i] - b[i]);

        sum += difference * difference;
    }
    return sum;
}

PF_BODY double
mean_difference(const uint8_t *a, const uint8_t *b, size_t n_bytes, pf_distance kind)
{
    uint64_t sum = 0;
    double mean;

    for (size_t first = 0; first < n_bytes; first += RUN_BYTES) {
        const size_t left = n_bytes - first;
        const size_t n = left < RUN_BYTES ? left : RUN_BYTES;

        if (kind == PF_DISTANCE_ABSOLUTE) {
            sum += (uint64_t)absolute_run(a + first, b + first, n);
        }
        else {
            sum += (uint64_t)square_run(a + first, b + first, n);
        }
    }
    mean = (double)sum / (double)n_bytes;
    return kind == PF_DISTANCE_ABSOLUTE ? mean / 255.0 : sqrt(mean) / 255.0;
}

static pf_status
histogram_distance(const uint8_t *a, const uint8_t *b, size_t n_px, double *distance)
{
    uint32_t of_a[PF_HISTOGRAM_CELLS];
    uint32_t of_b[PF_HISTOGRAM_CELLS];
    pf_status st = pf_histogram_count(a, n_px, of_a);
    int64_t moved = 0;

    if (st == PF_OK) {
        st = pf_histogram_count(b, n_px, of_b);
    }
    for (size_t i = 0; st == PF_OK && i < PF_HISTOGRAM_CELLS; i++) {
        const int64_t more = (int64_t)of_a[i] - (int64_t)of_b[i];

        moved += more < 0 ? -more : more;
    }
    *distance = (double)moved / (6.0 * (double)n_px);
    return st;
}

typedef double (*difference_fn)(
        const uint8_t *a, const uint8_t *b, size_t n_bytes, pf_distance kind);

static double
mean_difference_scalar(
        const uint8_t *a, const uint8_t *b, size_t n_bytes, pf_distance kind)
{
    return mean_difference(a, b, n_bytes, kind);
}

#if PF_X86
PF_TARGET_AVX2 static double
mean_difference_avx2(
        const uint8_t *a, const uint8_t *b, size_t n_bytes, pf_distance kind)
{
    return mean_difference(a, b, n_bytes, kind);
}

PF_TARGET_AVX512 static double
mean_difference_avx512(
        const uint8_t *a, const uint8_t *b, size_t n_bytes, pf_distance kind)
{
    return mean_difference(a, b, n_bytes, kind);
}
#endif

static difference_fn
choose_difference(void)
{
#if PF_X86
    const pf_cpu_level level = pf_cpu_best();

    if (level >= PF_CPU_AVX512) {
        return mean_difference_avx512;
    }
    if (level >= PF_CPU_AVX2) {
        return mean_difference_avx2;
    }
#endif
    return mean_difference_scalar;
}

pf_status
pf_distance_measure_pairs(const uint8_t *a, const uint8_t *b, size_t n_pair,
        size_t n_px, pf_distance kind, double *PF_RESTRICT distance)
{
    const difference_fn difference = choose_difference();
    size_t n_bytes;
    size_t n_largest;
    pf_status st = PF_OK;

    if (n_px == 0 || kind > PF_DISTANCE_HISTOGRAM) {
        return PF_EINVAL;
    }
    if (!pf_mul_size(n_px, 3, &n_bytes) ||
            !pf_mul_size(n_bytes, (size_t)255 * 255, &n_largest)) {
        return PF_EOVERFLOW;
    }
    for (size_t i = 0; st == PF_OK && i < n_pair; i++) {
        if (kind == PF_DISTANCE_HISTOGRAM) {
            st = histogram_distance(a, b, n_px, &distance[i]);
        }
        else {
            distance[i] = difference(a, b, n_bytes, kind);
        }
        a += n_bytes;
        b += n_bytes;
    }
    return st;
}
