/* samplers.c - deployed samplers' float forms, one rounding at a time. */
#include "grid/samplers.h"

#include <math.h>

/* what torch's float vector holds in an AVX2 kernel */
enum { TORCH_LANES = 8 };

static bool
is_frame(int64_t frame)
{
    return frame >= 0 && frame <= PF_SAMPLERS_FRAME_MAX;
}

pf_status
pf_samplers_linspace(int64_t first, int64_t last, pf_samplers_rounding rounding,
        int64_t n_index, int64_t *index)
{
    double step;

    if (n_index < 1 || first < -PF_SAMPLERS_FRAME_MAX ||
            first > PF_SAMPLERS_FRAME_MAX || last < -PF_SAMPLERS_FRAME_MAX ||
            last > PF_SAMPLERS_FRAME_MAX) {
        return PF_EINVAL;
    }
    if (n_index == 1) {
        index[0] = first;
        return PF_OK;
    }
    step = (double)(last - first) / (double)(n_index - 1);
    for (int64_t i = 0; i < n_index - 1; i++) {
        double at = (double)i * step + (double)first;

        at = rounding == PF_SAMPLERS_ROUND ? rint(at) : floor(at);
        index[i] = (int64_t)at;
    }
    index[n_index - 1] = last;
    return PF_OK;
}

pf_status
pf_samplers_torch_linspace(int64_t last, int64_t n_index, int64_t *index)
{
    const float stop = (float)last;
    const int64_t n_front = n_index / 2;
    float step;

    if (n_index < 1 || !is_frame(last)) {
        return PF_EINVAL;
    }
    if (n_index == 1) {
        index[0] = 0;
        return PF_OK;
    }
    step = stop / (float)(n_index - 1);
    for (int64_t i = 0; i < n_front; i++) {
        index[i] = (int64_t)rintf(step * (float)i);
    }
    for (int64_t i = n_front; i < n_index; i++) {
        index[i] = (int64_t)rintf(fmaf(-step, (float)(n_index - 1 - i), stop));
    }
    return PF_OK;
}

pf_status
pf_samplers_torch_arange_count(const pf_samplers_range *range, int64_t *n_index)
{
    const double start = range->start_frames;
    const double stop = range->stop_frames;
    double count;

    if (!isfinite(start) || !isfinite(stop) || !isfinite(range->step_frames)) {
        return PF_EDOMAIN;
    }
    if (start < 0 || start > stop || stop > PF_SAMPLERS_FRAME_MAX ||
            range->step_frames <= 0) {
        return PF_EINVAL;
    }
    count = ceil((stop - start) / range->step_frames);
    if (count > PF_SAMPLERS_FRAME_MAX) {
        return PF_EOVERFLOW;
    }
    *n_index = (int64_t)count;
    return PF_OK;
}

pf_status
pf_samplers_torch_arange(
        const pf_samplers_range *range, int64_t n_index, int64_t *index)
{
    const double start = range->start_frames;
    const double step = range->step_frames;
    int64_t n_wanted;
    int64_t i = 0;
    pf_status st = pf_samplers_torch_arange_count(range, &n_wanted);

    if (st != PF_OK) {
        return st;
    }
    if (n_wanted != n_index) {
        return PF_EINVAL;
    }
    /* torch enters its vector loop only while two vectors are left */
    for (int64_t lot = 0; lot < n_index / (2 * TORCH_LANES) * 2; lot++) {
        const float first = (float)fma(step, (double)i, start);

        for (int k = 0; k < TORCH_LANES; k++, i++) {
            index[i] = (int64_t)(float)fma(step, (double)k, (double)first);
        }
    }
    for (; i < n_index; i++) {
        index[i] = (int64_t)(float)fma(step, (double)i, start);
    }
    return PF_OK;
}

pf_status
pf_samplers_multiples(
        int64_t first, double step_frames, int64_t n_index, int64_t *index)
{
    if (!isfinite(step_frames)) {
        return PF_EDOMAIN;
    }
    if (n_index < 1 || first < 0 || step_frames < 0) {
        return PF_EINVAL;
    }
    if (first > PF_SAMPLERS_FRAME_MAX || n_index > PF_SAMPLERS_FRAME_MAX ||
            (double)(first + n_index - 1) * step_frames > PF_SAMPLERS_FRAME_MAX) {
        return PF_EOVERFLOW;
    }
    for (int64_t i = 0; i < n_index; i++) {
        index[i] = (int64_t)((double)(first + i) * step_frames);
    }
    return PF_OK;
}

pf_status
pf_samplers_segments(int64_t last, int64_t n_index, int64_t *index)
{
    double segment;

    if (n_index < 1 || !is_frame(last)) {
        return PF_EINVAL;
    }
    segment = (double)last / (double)n_index;
    for (int64_t i = 0; i < n_index; i++) {
        index[i] = (int64_t)(segment / 2 + rint(segment * (double)i));
    }
    return PF_OK;
}
