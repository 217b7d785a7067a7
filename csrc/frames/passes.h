/* passes.h - sizes, and which of the two passes of a resize comes first. */
#ifndef PF_PASSES_H
#define PF_PASSES_H

#include "base/pf.h"

typedef struct pf_size {
    int64_t height_px;
    int64_t width_px;
} pf_size;

typedef enum pf_first_pass {
    /* As Pillow since 13.0: vertical first when the height shrinks, and by more than
     * twice the pixels that the width loses; horizontal first otherwise. */
    PF_FIRST_AUTO = 0,
    PF_FIRST_HORIZONTAL, /* as Pillow before 13.0, always */
    PF_FIRST_VERTICAL
} pf_first_pass;

/* "auto", "horizontal" or "vertical"; PF_EINVAL for another name. */
PF_NODISCARD pf_status pf_first_pass_parse(const char *name, pf_first_pass *first_pass);

/* Whether the vertical pass comes first. Never when a side keeps its size: there is
 * only one pass then. */
bool pf_first_pass_is_vertical(pf_first_pass first_pass, pf_size src, pf_size dst);

#endif /* PF_PASSES_H */
