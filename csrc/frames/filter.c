/* filter.c - resampling filters and their fixed-point weights. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frames/filter.h"

static const double pi = 3.14159265358979323846;

static double
box(double x)
{
    return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

static double
bilinear(double x)
{
    x = fabs(x);
    return x < 1.0 ? 1.0 - x : 0.0;
}

static double
hamming(double x)
{
    x = fabs(x);
    if (x == 0.0) {
        return 1.0;
    }
    if (x >= 1.0) {
        return 0.0;
    }
    x *= pi;
    return sin(x) / x * (0.54f + 0.46f * cos(x));
}

static double
bicubic(double x)
{
    const double a = -0.5;

    x = fabs(x);
    if (x < 1.0) {
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    }
    if (x < 2.0) {
        return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    }
    return 0.0;
}

static double
sinc(double x)
{
    if (x == 0.0) {
        return 1.0;
    }
    x *= pi;
    return sin(x) / x;
}

static double
lanczos(double x)
{
    return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
}

static const struct kernel {
    const char *name;
    double (*value)(double x);
    double support_px;
} kernels[] = {
        [PF_FILTER_BOX] = {"box", box, 0.5},
        [PF_FILTER_BILINEAR] = {"bilinear", bilinear, 1.0},
        [PF_FILTER_HAMMING] = {"hamming", hamming, 1.0},
        [PF_FILTER_BICUBIC] = {"bicubic", bicubic, 2.0},
        [PF_FILTER_LANCZOS] = {"lanczos", lanczos, 3.0},
};

pf_status
pf_filter_parse(const char *name, pf_filter *filter)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(name, kernels[i].name) == 0) {
            *filter = (pf_filter)i;
            return PF_OK;
        }
    }
    return PF_EINVAL;
}

/* The weights of one resized pixel. real has room for the taps. The order of every
 * operation is Pillow's, since a weight may sit on a rounding boundary. */
static void
weigh(pf_axis *axis, size_t x, const struct kernel *kernel, double *real)
{
    const double scale = (double)axis->src_px / (double)axis->dst_px;
    const double widen = scale < 1.0 ? 1.0 : scale;
    const double narrow = 1.0 / widen;
    const double support = kernel->support_px * widen;
    const double centre = ((double)x + 0.5) * scale;
    const int64_t low = (int64_t)(centre - support + 0.5);
    const int64_t high = (int64_t)(centre + support + 0.5);
    const int64_t first = low < 0 ? 0 : low;
    const int64_t end = high > axis->src_px ? axis->src_px : high;
    int32_t *weight = axis->weight + x * axis->stride;
    double sum = 0.0;

    assert(first < end && (size_t)(end - first) <= axis->stride);
    for (int64_t i = 0; i < end - first; i++) {
        real[i] = kernel->value(((double)(i + first) - centre + 0.5) * narrow);
        sum += real[i];
    }
    for (int64_t i = 0; i < end - first; i++) {
        const double share = sum != 0.0 ? real[i] / sum : real[i];
        const double scaled = share * (double)(1 << PF_WEIGHT_BITS);

        weight[i] = (int32_t)(scaled < 0.0 ? scaled - 0.5 : scaled + 0.5);
    }
    axis->first_px[x] = (int32_t)first;
    axis->n_tap[x] = (int32_t)(end - first);
    if (axis->n_tap[x] > axis->n_tap_max) {
        axis->n_tap_max = axis->n_tap[x];
    }
}

/* Room for the widest pixel: twice the support, one for the rounding of its ends. */
static size_t
tap_bound(int64_t src_px, int64_t dst_px, double support_px)
{
    const double scale = (double)src_px / (double)dst_px;
    const double support = support_px * (scale < 1.0 ? 1.0 : scale);
    const double bound = 2.0 * ceil(support) + 1.0;

    return bound < (double)src_px ? (size_t)bound : (size_t)src_px;
}

pf_status
pf_axis_init(pf_axis *axis, int64_t src_px, int64_t dst_px, pf_filter filter)
{
    double *real = NULL;
    size_t n_weight;

    *axis = (pf_axis){0};
    if (src_px < 1 || dst_px < 1 ||
            (size_t)filter >= sizeof kernels / sizeof *kernels) {
        return PF_EINVAL;
    }
    if (src_px > PF_AXIS_MAX_PX || dst_px > PF_AXIS_MAX_PX) {
        return PF_EOVERFLOW;
    }
    axis->src_px = src_px;
    axis->dst_px = dst_px;
    axis->stride = tap_bound(src_px, dst_px, kernels[filter].support_px);
    if (!pf_mul_size((size_t)dst_px, axis->stride, &n_weight)) {
        return PF_EOVERFLOW;
    }
    real = calloc(axis->stride, sizeof *real); /* calloc checks the products */
    axis->first_px = calloc((size_t)dst_px, sizeof *axis->first_px);
    axis->n_tap = calloc((size_t)dst_px, sizeof *axis->n_tap);
    axis->weight = calloc(n_weight, sizeof *axis->weight);
    if (real == NULL || axis->first_px == NULL || axis->n_tap == NULL ||
            axis->weight == NULL) {
        free(real);
        pf_axis_free(axis);
        return PF_ENOMEM;
    }
    for (size_t x = 0; x < (size_t)dst_px; x++) {
        weigh(axis, x, &kernels[filter], real);
    }
    free(real);
    return PF_OK;
}

void
pf_axis_free(pf_axis *axis)
{
    free(axis->weight);
    free(axis->n_tap);
    free(axis->first_px);
    *axis = (pf_axis){0};
}
