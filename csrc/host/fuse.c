/* fuse.c - see fuse.h. */
#include "host/fuse.h"

#include "base/random.h"
#include "host/block.h"

enum { SCORE_THREADS = 256, FUSE_THREADS = 128, WARP = 32, MAX_BLOCKS = INT32_MAX };

static bool
are_tokens_sane(const pf_gpu_logits *l)
{
    for (int64_t i = 0; i < l->n_row * l->n_option; i++) {
        if (l->token[i] < 0 || l->token[i] >= l->n_vocab || l->order[i] < 0 ||
                l->order[i] >= l->n_option) {
            return false;
        }
    }
    return true;
}

static pf_status
score(pf_device *device, const pf_gpu_logits *l, pf_block *block, pf_failure *failure)
{
    const pf_gpu_scores params = {
            .logits = (const void *)l->logits,
            .token = (const int *)block->part[0].address,
            .order = (const int *)block->part[1].address,
            .logprob = (double *)block->part[2].address,
            .mass = (double *)block->part[3].address,
            .row_values = l->row_values,
            .n_vocab = l->n_vocab,
            .n_option = (int)l->n_option,
            .type = (int)l->type,
    };
    const pf_launch launch = {.kernel = PF_KERNEL_pf_option_scores,
            .grid = {(unsigned)l->n_row, 1, 1},
            .block = {SCORE_THREADS, 1, 1},
            .shared_bytes = SCORE_THREADS * sizeof(double),
            .params = &params,
            .stream = l->stream};

    return pf_device_launch(device, &launch, failure);
}

pf_status
pf_gpu_option_scores(pf_device *device, const pf_gpu_logits *l, double *logprob,
        double *mass, pf_failure *failure)
{
    pf_block block = {.stream = l->stream};
    size_t n;
    pf_status st;

    if (l->n_option < 1 || l->n_option > PF_OPTION_MAX || l->n_row < 0 ||
            l->n_row > MAX_BLOCKS || l->n_vocab < 1 || !are_tokens_sane(l)) {
        return PF_EINVAL;
    }
    if (l->n_row == 0) {
        return PF_OK;
    }
    n = (size_t)(l->n_row * l->n_option);
    block.part[0] = (pf_block_part){.from = l->token, .n_byte = n * sizeof *l->token};
    block.part[1] = (pf_block_part){.from = l->order, .n_byte = n * sizeof *l->order};
    block.part[2] = (pf_block_part){.to = logprob, .n_byte = n * sizeof *logprob};
    block.part[3] =
            (pf_block_part){.to = mass, .n_byte = (size_t)l->n_row * sizeof *mass};
    st = pf_device_enter(device, failure);
    if (st != PF_OK) {
        return st;
    }
    st = pf_block_open(device, &block, failure);
    if (st == PF_OK) {
        st = score(device, l, &block, failure);
    }
    st = pf_block_close(device, &block, st, failure);
    return pf_device_leave(device, st, failure);
}

/* Where an array is: in the block, or already on the device. */
static void *
place_of(const pf_gpu_passes *p, const pf_block *block, int part, const void *own)
{
    return p->is_there ? (void *)(uintptr_t)own : (void *)block->part[part].address;
}

static pf_status
fuse(pf_device *device, const pf_gpu_passes *p, pf_block *block, pf_failure *failure)
{
    const int64_t of_block = FUSE_THREADS / WARP;
    const pf_gpu_fuse params = {
            .logprob = place_of(p, block, 0, p->logprob),
            .tie_seed = (const unsigned long long *)block->part[1].address,
            .posterior = place_of(p, block, 2, p->posterior),
            .margin = place_of(p, block, 3, p->margin_nats),
            .answer = place_of(p, block, 4, p->answer),
            .n_tied = place_of(p, block, 5, p->n_tied),
            .n_valid = place_of(p, block, 6, p->n_valid),
            .n_item = p->n_item,
            .n_pass = p->n_pass,
            .n_option = (int)p->n_option,
            .is_complete = p->is_complete,
    };
    const pf_launch launch = {.kernel = PF_KERNEL_pf_fuse_passes,
            .grid = {(unsigned)((p->n_item + of_block - 1) / of_block), 1, 1},
            .block = {FUSE_THREADS, 1, 1},
            .shared_bytes = FUSE_THREADS,
            .params = &params,
            .stream = p->stream};

    return pf_device_launch(device, &launch, failure);
}

pf_status
pf_gpu_fuse_run(pf_device *device, const pf_gpu_passes *p, pf_failure *failure)
{
    pf_block block = {.stream = p->stream};
    const size_t n = (size_t)p->n_item;
    size_t n_posterior, n_logprob, n_byte;
    pf_status st;

    if (p->n_option < 1 || p->n_option > PF_OPTION_MAX || p->n_pass < 1 ||
            p->n_item < 0 || p->n_item > MAX_BLOCKS) {
        return PF_EINVAL;
    }
    if (!pf_mul_size(n, (size_t)p->n_option, &n_posterior) ||
            !pf_mul_size(n_posterior, (size_t)p->n_pass, &n_logprob) ||
            !pf_mul_size(n_logprob, sizeof(double), &n_byte)) {
        return PF_EOVERFLOW;
    }
    if (n == 0) {
        return PF_OK;
    }
    block.part[1] = (pf_block_part){.from = p->tie_seed, .n_byte = n * 8};
    if (!p->is_there) {
        block.part[0] = (pf_block_part){.from = p->logprob, .n_byte = n_byte};
        block.part[2] = (pf_block_part){.to = p->posterior, .n_byte = n_posterior * 8};
        block.part[3] = (pf_block_part){.to = p->margin_nats, .n_byte = n * 8};
        block.part[4] = (pf_block_part){.to = p->answer, .n_byte = n * 8};
        block.part[5] = (pf_block_part){.to = p->n_tied, .n_byte = n * 8};
        block.part[6] = (pf_block_part){.to = p->n_valid, .n_byte = n * 8};
    }
    st = pf_device_enter(device, failure);
    if (st != PF_OK) {
        return st;
    }
    st = pf_block_open(device, &block, failure);
    if (st == PF_OK) {
        st = fuse(device, p, &block, failure);
    }
    st = pf_block_close(device, &block, st, failure);
    return pf_device_leave(device, st, failure);
}
