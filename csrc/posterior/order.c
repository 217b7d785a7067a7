/* order.c - see order.h. */
#include "posterior/order.h"
#include "base/random.h"

pf_status
pf_order_check(const pf_order_set *set, size_t *bad_row)
{
    const uint64_t one = 1;
    uint64_t full;

    if (set->n_option < 1 || set->n_option > PF_OPTION_MAX) {
        return PF_EINVAL;
    }
    full = (one << set->n_option) - 1;
    for (size_t o = 0; o < set->n_order; o++) {
        const int64_t *row = set->order + o * set->n_option;
        uint64_t seen = 0;

        for (size_t place = 0; place < set->n_option; place++) {
            if (row[place] >= 0 && row[place] < (int64_t)set->n_option) {
                seen |= one << row[place];
            }
        }
        if (seen != full) {
            *bad_row = o;
            return PF_OK;
        }
    }
    *bad_row = set->n_order;
    return PF_OK;
}

void
pf_order_to_content(const pf_order_set *set, size_t n_outer,
        const double *PF_RESTRICT letter, double *PF_RESTRICT content)
{
    const size_t n_value = set->n_order * set->n_option;

    for (size_t i = 0; i < n_outer; i++) {
        for (size_t at = 0; at < n_value; at++) {
            const size_t row = at - at % set->n_option;

            content[i * n_value + row + (size_t)set->order[at]] =
                    letter[i * n_value + at];
        }
    }
}

void
pf_order_to_letters(const pf_order_set *set, size_t n_outer,
        const double *PF_RESTRICT content, double *PF_RESTRICT letter)
{
    const size_t n_value = set->n_order * set->n_option;

    for (size_t i = 0; i < n_outer; i++) {
        for (size_t at = 0; at < n_value; at++) {
            const size_t row = at - at % set->n_option;

            letter[i * n_value + at] =
                    content[i * n_value + row + (size_t)set->order[at]];
        }
    }
}
