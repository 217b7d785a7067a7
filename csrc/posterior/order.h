/* order.h - between letter space (place in the prompt) and content space (option). */
#ifndef PF_ORDER_H
#define PF_ORDER_H

#include "base/pf.h"

/*
 * Option orders: content = order[o, place], each row a permutation of 0 .. n_option-1.
 *
 * order (n_order, n_option), row-major; n_option in 1 .. PF_OPTION_MAX.
 */
typedef struct pf_order_set {
    const int64_t *order;
    size_t n_order;
    size_t n_option;
} pf_order_set;

/*
 * Looks for a row that is no permutation.
 *
 * *bad_row, out: its index, or n_order when all rows are permutations.
 * PF_EINVAL when n_option is out of range.
 */
PF_NODISCARD pf_status pf_order_check(const pf_order_set *set, size_t *bad_row);

/*
 * content[i, o, order[o, place]] = letter[i, o, place]
 *
 * letter, content (n_outer, n_order, n_option), row-major, must not overlap; the orders
 * must have passed pf_order_check.
 */
void pf_order_to_content(const pf_order_set *set, size_t n_outer,
        const double *PF_RESTRICT letter, double *PF_RESTRICT content);

/* The way back: letter[i, o, place] = content[i, o, order[o, place]] */
void pf_order_to_letters(const pf_order_set *set, size_t n_outer,
        const double *PF_RESTRICT content, double *PF_RESTRICT letter);

#endif /* PF_ORDER_H */
