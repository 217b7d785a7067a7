/* plan.h - which stretches of packets must be decoded for a set of wanted frames. */
#ifndef PF_VIDEO_PLAN_H
#define PF_VIDEO_PLAN_H

#include "video/index.h"

/* One output slot. The key is the packet that holds the picture or, in a counted
 * index, the frame's own index: the place in the decoder's output. */
typedef struct pf_target {
    int64_t key;
    int64_t start; /* packet where decoding for it must begin */
    size_t slot;
} pf_target;

/* Packets first..last, decoded by one decoder without a break. */
typedef struct pf_run {
    int64_t first;
    int64_t last;
    int64_t first_rank; /* pictures of a lower rank may come out broken here */
    size_t first_target;
    size_t n_target;
} pf_run;

typedef struct pf_plan {
    pf_target *target; /* (n_target) sorted by key within each run */
    size_t n_target;
    pf_run *run; /* (n_run) */
    size_t n_run;
    bool by_place;      /* keys are places in the output */
    uint8_t *is_needed; /* (n_packet) 0: may be left out; NULL: all are needed */
} pf_plan;

/* For frames (n_slot indices in 0..n_frame-1). sequential: one run from the start with
 * nothing left out. joined: runs that touch become one, in stream order (for a single
 * thread); otherwise the longest run comes first. */
PF_NODISCARD pf_status pf_plan_make(pf_plan *plan, const pf_index *index,
        const int64_t *frame, size_t n_slot, bool sequential, bool joined);

/* The first target of the run with this key, or NULL. */
const pf_target *pf_plan_find(const pf_plan *plan, const pf_run *run, int64_t key);

void pf_plan_free(pf_plan *plan);

#endif /* PF_VIDEO_PLAN_H */
