/* fuse.h - posteriors of options out of logits that lie on a GPU. */
#ifndef PF_HOST_FUSE_H
#define PF_HOST_FUSE_H

#include "cuda/params.h"
#include "host/device.h"

/* Rows of logits, one a pass, on the device; token and order (n_row, n_option) are the
 * host's: the token of the option at each place, and its content index. */
typedef struct pf_gpu_logits {
    pf_device_address logits;
    pf_gpu_float type;
    int64_t row_values; /* from row to row */
    int64_t n_vocab;
    const int32_t *token;
    const int32_t *order;
    int64_t n_row;
    int64_t n_option;
    void *stream;
} pf_gpu_logits;

/* Log-softmax over the whole vocabulary, of the options alone, in content order:
 * logprob (n_row, n_option); mass (n_row,): of all options of a row together. Both are
 * of the host and complete on return. A NaN or +inf makes its row NaN. PF_EINVAL for
 * counts out of range or a token that is not in the vocabulary. */
PF_NODISCARD pf_status pf_gpu_option_scores(pf_device *device,
        const pf_gpu_logits *logits, double *logprob, double *mass,
        pf_failure *failure);

/* pf_posterior_fuse by the linear pool, for items of n_option options each; bit for bit
 * but for the margin of posteriors below 1e-290, which is within 2 units in the last
 * place of its logs. Arrays are of the host, or with is_there all but tie_seed lie on
 * the device; complete on return. */
typedef struct pf_gpu_passes {
    const double *logprob; /* (n_item, n_pass, n_option) */
    const uint64_t *tie_seed;
    int64_t n_item;
    int64_t n_pass;
    int64_t n_option;
    bool is_complete;
    bool is_there;
    void *stream;
    double *posterior; /* (n_item, n_option), and so on: out, as of pf_fused */
    double *margin_nats;
    int64_t *answer;
    int64_t *n_tied;
    int64_t *n_valid;
} pf_gpu_passes;

PF_NODISCARD pf_status pf_gpu_fuse_run(
        pf_device *device, const pf_gpu_passes *passes, pf_failure *failure);

#endif /* PF_HOST_FUSE_H */
