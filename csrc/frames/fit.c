/* fit.c - one plan a size, one scratch a thread and size. */
#include "frames/fit.h"

#include <stdlib.h>

static bool
is_same_size(pf_size a, pf_size b)
{
    return a.height_px == b.height_px && a.width_px == b.width_px;
}

/* The plan of each group's size, shared by groups of the same. */
static pf_status
make_plans(pf_fit *fit, const pf_resize_options *options)
{
    for (size_t g = 0; g < fit->groups.n_group; g++) {
        const pf_size size = fit->groups.group[g].size;
        size_t k = 0;

        while (k < fit->n_plan && !is_same_size(fit->plan[k].dst, size)) {
            k++;
        }
        fit->plan_of[g] = k;
        if (k == fit->n_plan) {
            const pf_status st =
                    pf_resize_plan_init(&fit->plan[k], fit->src, size, options);

            fit->n_plan++;
            if (st != PF_OK) {
                return st;
            }
        }
    }
    return PF_OK;
}

static pf_status
make_scratch(pf_fit *fit)
{
    size_t n_scratch;

    if (!pf_mul_size(fit->n_share, fit->n_plan, &n_scratch)) {
        return PF_EOVERFLOW;
    }
    fit->scratch = calloc(n_scratch > 0 ? n_scratch : 1, sizeof *fit->scratch);
    if (fit->scratch == NULL) {
        return PF_ENOMEM;
    }
    for (size_t i = 0; i < n_scratch; i++) {
        const pf_status st =
                pf_resize_scratch_init(&fit->scratch[i], &fit->plan[i % fit->n_plan]);

        if (st != PF_OK) {
            return st;
        }
    }
    return PF_OK;
}

pf_status
pf_fit_init(pf_fit *fit, pf_size src_size, pf_fit_groups groups,
        const pf_resize_options *options, const pf_normalise *normalise, size_t n_share)
{
    const pf_fit_group *group = groups.group;
    const size_t n_room = groups.n_group > 0 ? groups.n_group : 1;
    pf_status st;

    *fit = (pf_fit){.groups = groups,
            .src = src_size,
            .normalise = normalise,
            .n_share = n_share};
    for (size_t g = 0; g < groups.n_group; g++) {
        if ((group[g].rgb == NULL) == (group[g].planes == NULL) ||
                (group[g].planes != NULL && normalise == NULL)) {
            return PF_EINVAL;
        }
    }
    fit->plan = calloc(n_room, sizeof *fit->plan);
    fit->plan_of = calloc(n_room, sizeof *fit->plan_of);
    if (fit->plan == NULL || fit->plan_of == NULL) {
        return PF_ENOMEM;
    }
    st = make_plans(fit, options);
    return st == PF_OK ? make_scratch(fit) : st;
}

pf_status
pf_fit_take(void *opaque, size_t share, size_t slot, const uint8_t *rgb)
{
    const pf_fit *fit = opaque;
    const ptrdiff_t row_bytes = 3 * (ptrdiff_t)fit->src.width_px;
    const pf_image_src src = {rgb, fit->src, row_bytes};
    const pf_fit_group *group = fit->groups.group;
    const pf_resize_plan *plan;
    pf_resize_scratch *scratch;
    pf_image_dst dst;
    size_t n_value;
    size_t g = 0;

    while (g < fit->groups.n_group && slot >= group[g].n_slot) {
        slot -= group[g++].n_slot;
    }
    if (g == fit->groups.n_group || share >= fit->n_share) {
        return PF_EINVAL;
    }
    group += g;
    plan = &fit->plan[fit->plan_of[g]];
    scratch = &fit->scratch[share * fit->n_plan + fit->plan_of[g]];
    n_value = slot * 3 * (size_t)group->size.height_px * (size_t)group->size.width_px;
    if (group->planes != NULL) {
        return pf_resize_normalise_run(
                plan, scratch, &src, fit->normalise, group->planes + n_value);
    }
    dst = (pf_image_dst){
            group->rgb + n_value, group->size, 3 * (ptrdiff_t)group->size.width_px};
    return pf_resize_run(plan, scratch, &src, &dst);
}

void
pf_fit_free(pf_fit *fit)
{
    for (size_t i = 0; fit->scratch != NULL && i < fit->n_share * fit->n_plan; i++) {
        pf_resize_scratch_free(&fit->scratch[i]);
    }
    for (size_t k = 0; fit->plan != NULL && k < fit->n_plan; k++) {
        pf_resize_plan_free(&fit->plan[k]);
    }
    free(fit->scratch);
    free(fit->plan);
    free(fit->plan_of);
    *fit = (pf_fit){0};
}
