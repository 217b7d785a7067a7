/* histogram.c - see histogram.h. */
#include "frames/histogram.h"

#include <math.h>
#include <string.h>

/* Neighbours often fall into one bin; with a table each they need not wait for one
 * another. */
enum { N_LANE = 4 };

pf_status
pf_histogram_count(const uint8_t *rgb, size_t n_px, uint32_t *PF_RESTRICT count)
{
    uint32_t lane[N_LANE][3][PF_HISTOGRAM_BINS] = {{{0}}};
    size_t p = 0;

    if (n_px > UINT32_MAX) {
        return PF_EOVERFLOW;
    }
    for (; n_px - p >= N_LANE; p += N_LANE) {
        const uint8_t *at = rgb + 3 * p;

        for (size_t k = 0; k < N_LANE; k++) {
            lane[k][0][at[3 * k] / PF_HISTOGRAM_WIDTH]++;
            lane[k][1][at[3 * k + 1] / PF_HISTOGRAM_WIDTH]++;
            lane[k][2][at[3 * k + 2] / PF_HISTOGRAM_WIDTH]++;
        }
    }
    for (; p < n_px; p++) {
        for (size_t c = 0; c < 3; c++) {
            lane[0][c][rgb[3 * p + c] / PF_HISTOGRAM_WIDTH]++;
        }
    }
    for (size_t i = 0; i < PF_HISTOGRAM_CELLS; i++) {
        const size_t c = i / PF_HISTOGRAM_BINS;
        const size_t bin = i % PF_HISTOGRAM_BINS;

        count[i] =
                lane[0][c][bin] + lane[1][c][bin] + lane[2][c][bin] + lane[3][c][bin];
    }
    return PF_OK;
}

/* Square roots of the shares of one frame's pixels. */
static pf_status
take_roots(const uint32_t *count, double root[PF_HISTOGRAM_CELLS])
{
    for (size_t c = 0; c < 3; c++) {
        const uint32_t *channel = count + c * PF_HISTOGRAM_BINS;
        uint64_t n_px = 0;

        for (size_t i = 0; i < PF_HISTOGRAM_BINS; i++) {
            n_px += channel[i];
        }
        if (n_px == 0) {
            return PF_EINVAL;
        }
        for (size_t i = 0; i < PF_HISTOGRAM_BINS; i++) {
            root[c * PF_HISTOGRAM_BINS + i] =
                    sqrt((double)channel[i] / (3.0 * (double)n_px));
        }
    }
    return PF_OK;
}

pf_status
pf_histogram_change(const uint32_t *count, size_t n_frame, double *PF_RESTRICT change)
{
    double before[PF_HISTOGRAM_CELLS];
    double now[PF_HISTOGRAM_CELLS];

    for (size_t f = 0; f < n_frame; f++) {
        const pf_status st = take_roots(count + f * PF_HISTOGRAM_CELLS, now);
        double sum = 0.0;

        if (st != PF_OK) {
            return st;
        }
        for (size_t i = 0; f > 0 && i < PF_HISTOGRAM_CELLS; i++) {
            const double difference = now[i] - before[i];

            sum += difference * difference;
        }
        change[f] = fmin(sqrt(sum / 2.0), 1.0); /* rounding could leave [0, 1] */
        memcpy(before, now, sizeof before);
    }
    return PF_OK;
}
