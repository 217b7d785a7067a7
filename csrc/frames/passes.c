/* passes.c - see passes.h. */
#include "frames/passes.h"

#include <string.h>

pf_status
pf_first_pass_parse(const char *name, pf_first_pass *first_pass)
{
    static const char *const names[] = {
            [PF_FIRST_AUTO] = "auto",
            [PF_FIRST_HORIZONTAL] = "horizontal",
            [PF_FIRST_VERTICAL] = "vertical",
    };

    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) == 0) {
            *first_pass = (pf_first_pass)i;
            return PF_OK;
        }
    }
    return PF_EINVAL;
}

/* Pillow's rule since 13.0, in pixels lost. */
bool
pf_first_pass_is_vertical(pf_first_pass first_pass, pf_size src, pf_size dst)
{
    const int64_t height_lost = src.height_px - dst.height_px;
    const int64_t width_lost = src.width_px - dst.width_px;

    if (height_lost == 0 || width_lost == 0) {
        return false;
    }
    if (first_pass != PF_FIRST_AUTO) {
        return first_pass == PF_FIRST_VERTICAL;
    }
    return height_lost > 0 && height_lost > 2 * width_lost;
}
