/* fit.h - pictures of one size that come one by one, in any order, from several
 * threads, to the sizes at which groups of slots want them. */
#ifndef PF_FIT_H
#define PF_FIT_H

#include "frames/resize.h"

/* n_slot places of one size, one after the other. Exactly one output is set: rgb uint8
 * (n_slot, height, width, 3), or planes float32 (n_slot, 3, height, width). */
typedef struct pf_fit_group {
    pf_size size;
    size_t n_slot;
    uint8_t *rgb;
    float *planes;
} pf_fit_group;

/* Groups of the caller, which slots count through. */
typedef struct pf_fit_groups {
    const pf_fit_group *group;
    size_t n_group;
} pf_fit_groups;

typedef struct pf_fit {
    pf_fit_groups groups;
    pf_size src;
    const pf_normalise *normalise;
    pf_resize_plan *plan; /* (n_plan) one a size */
    size_t n_plan;
    size_t *plan_of;            /* (groups.n_group) */
    pf_resize_scratch *scratch; /* (n_share, n_plan) */
    size_t n_share;
} pf_fit;

/* For pictures of src_size. normalise may be NULL when no group wants planes. The
 * groups and normalise must outlive the fit, which must be freed in every case. Errors
 * as of pf_resize_plan_init; PF_EINVAL also for a group without exactly one output. */
PF_NODISCARD pf_status pf_fit_init(pf_fit *fit, pf_size src_size, pf_fit_groups groups,
        const pf_resize_options *options, const pf_normalise *normalise,
        size_t n_share);

/* Fits a picture, rows tight, into a slot. share is below n_share and belongs to one
 * thread at a time. PF_EINVAL for a slot or share that is not there. */
PF_NODISCARD pf_status pf_fit_take(
        void *fit, size_t share, size_t slot, const uint8_t *rgb);

/* Safe on a zeroed, half-built or freed fit. */
void pf_fit_free(pf_fit *fit);

#endif /* PF_FIT_H */
