/* fuse.cu - log-probabilities of options out of rows of logits, and their pool.
 *
 * exp and log are those of the C core, operation by operation, and sums over options
 * and passes go in its order; so posteriors are its bits. */
#include "device.h"
#include "params.h"

#if defined(__CUDACC_RTC__)
typedef unsigned long long uint64_t;
#define UINT64_C(number) number##ull
#else
#include <stdint.h>
#endif
/* Called, not copied into each place: memory is what these kernels wait for. */
#define PF_CALLED static __device__ __noinline__
#define PF_EXPONENTIAL_FUNCTION PF_CALLED
#include "exponential.h"

enum { PF_SCORE_THREADS = 256, PF_ALL_LANES = 0xffffffff };

PF_CALLED double
pf_logit_at(const pf_gpu_scores &p, pf_i64 at)
{
    if (p.type == PF_GPU_FLOAT32) {
        return ((const float *)p.logits)[at];
    }
    return p.type == PF_GPU_FLOAT16
                   ? pf_gpu_from_float16(((const pf_u16 *)p.logits)[at])
                   : pf_gpu_from_bfloat16(((const pf_u16 *)p.logits)[at]);
}

/* One row a block. The sum is over threads, each over every 256th token, then in pairs:
 * always the same order. NaN and +inf make everything of the row NaN. */
PF_KERNEL
__launch_bounds__(PF_SCORE_THREADS, 4) pf_option_scores(const pf_gpu_scores p)
{
    PF_DYN_SHARED(block_memory);
    double *part = (double *)block_memory;
    const pf_i64 row = (pf_i64)blockIdx.x * p.row_values;
    const pf_i32 tid = threadIdx.x;
    double top = -pf_gpu_infinity();
    double total = 0.0;

#pragma unroll 1
    for (pf_i64 i = tid; i < p.n_vocab; i += PF_SCORE_THREADS) {
        const double x = pf_logit_at(p, row + i);

        top = x > top ? x : top;
    }
    part[tid] = top;
#pragma unroll 1
    for (pf_i32 n = PF_SCORE_THREADS / 2; n > 0; n /= 2) {
        __syncthreads();
        if (tid < n && part[tid + n] > part[tid]) {
            part[tid] = part[tid + n];
        }
    }
    __syncthreads();
    top = part[0];
    __syncthreads(); /* before it is written again */
#pragma unroll 1
    for (pf_i64 i = tid; i < p.n_vocab; i += PF_SCORE_THREADS) {
        total += pf_exp_nonpositive(pf_logit_at(p, row + i) - top);
    }
    part[tid] = total;
#pragma unroll 1
    for (pf_i32 n = PF_SCORE_THREADS / 2; n > 0; n /= 2) {
        __syncthreads();
        if (tid < n) {
            part[tid] += part[tid + n];
        }
    }
    __syncthreads();
    if (tid >= p.n_option) {
        return;
    }
    const pf_i64 at = (pf_i64)blockIdx.x * p.n_option + tid;
    const double all = part[0];
    /* all is at least 1, but for rounding, or NaN */
    const double norm = all == all ? pf_log_above_one(all > 1.0 ? all : 1.0) : all;
    const double logprob = pf_logit_at(p, row + p.token[at]) - top - norm;

    p.logprob[at - tid + p.order[at]] = logprob;
    if (tid > 0) {
        return;
    }
    double mass = 0.0;
#pragma unroll 1
    for (pf_i32 k = 0; k < p.n_option; k++) { /* in the order of the places */
        mass += pf_exp_nonpositive(pf_logit_at(p, row + p.token[at + k]) - top - norm);
    }
    p.mass[blockIdx.x] = mass;
}

/* Of the warp: the value of option k. */
PF_DEVICE double
pf_of_lane(double value, pf_i32 k)
{
    return __shfl_sync(PF_ALL_LANES, value, k);
}

struct pf_best {
    double top;
    double second;
};

/* Greatest and second greatest of all options, NaN passed over. */
PF_CALLED pf_best
pf_rank(double score, pf_i32 n_option)
{
    pf_best best = {-pf_gpu_infinity(), -pf_gpu_infinity()};

#pragma unroll 1
    for (pf_i32 k = 0; k < n_option; k++) {
        const double x = pf_of_lane(score, k);
        const double loser = x < best.top ? x : best.top;

        best.top = x > best.top ? x : best.top;
        best.second = loser > best.second ? loser : best.second;
    }
    return best;
}

/* log(exp(a) + exp(b)), either may be -inf. What log1p would keep of a small sum is far
 * below the last place of margins that come to this. */
PF_CALLED double
pf_log_add(double a, double b)
{
    const double high = a > b ? a : b;
    const double low = a > b ? b : a;

    return low == -pf_gpu_infinity()
                   ? high
                   : high + pf_log_above_one(1.0 + pf_exp_nonpositive(low - high));
}

/* Of a pass: the posterior of the lane's option, the best logits, and NaN for an
 * invalid pass. */
struct pf_said {
    double share;
    double total;
    pf_best best;
};

PF_CALLED pf_said
pf_read_pass(double logprob, pf_i32 n_option)
{
    const pf_best best = pf_rank(logprob, n_option);
    const double power = pf_exp_nonpositive(logprob - best.top);
    double total = best.top - best.top;

#pragma unroll 1
    for (pf_i32 k = 0; k < n_option; k++) {
        total += pf_of_lane(power, k);
    }
    return {power * (1.0 / total), total, best};
}

/* Margin by logs, where posteriors underflow. */
PF_CALLED double
pf_margin_by_logs(const pf_gpu_fuse &p, const double *row, bool has_option, pf_i32 lane)
{
    double pooled = -pf_gpu_infinity();

#pragma unroll 1
    for (pf_i64 s = 0; s < p.n_pass; s++) {
        const double logprob =
                has_option ? row[s * p.n_option + lane] : -pf_gpu_infinity();
        double norm = -pf_gpu_infinity();

        const double total = pf_read_pass(logprob, p.n_option).total;

        if (total != total) {
            continue; /* all lanes alike */
        }
#pragma unroll 1
        for (pf_i32 k = 0; k < p.n_option; k++) {
            norm = pf_log_add(norm, pf_of_lane(logprob, k));
        }
        pooled = pf_log_add(pooled, logprob - norm);
    }
    const pf_best best = pf_rank(pooled, p.n_option);

    return best.top - best.second;
}

/* pf_rng_below of csrc/base/random.c */
PF_DEVICE pf_u64
pf_draw_below(pf_u64 *state, pf_u64 bound)
{
    const pf_u64 most = ~0ull;
    const pf_u64 spare = (most % bound + 1) % bound;
    pf_u64 draw;

    do {
        *state += PF_GPU_RNG_STEP;
        draw = pf_gpu_mix(*state);
    } while (draw > most - spare);
    return draw % bound;
}

/* pf_tie_break: the first of the tied options in the permutation of the seed. */
PF_CALLED pf_i32
pf_break_tie(pf_u64 seed, pf_u32 tied, pf_i32 n_option, pf_u8 *order)
{
#pragma unroll 1
    for (pf_i32 i = 0; i < n_option; i++) {
        order[i] = (pf_u8)i;
    }
#pragma unroll 1
    for (pf_i32 i = n_option; i > 1; i--) {
        const pf_i32 j = (pf_i32)pf_draw_below(&seed, (pf_u64)i);
        const pf_u8 last = order[i - 1];

        order[i - 1] = order[j];
        order[j] = last;
    }
#pragma unroll 1
    for (pf_i32 i = 0; i < n_option; i++) {
        if (tied >> order[i] & 1u) {
            return order[i];
        }
    }
    return -1;
}

/* One item a warp, one option a lane; the linear pool of pf_posterior_fuse. */
PF_KERNEL __launch_bounds__(128) pf_fuse_passes(const pf_gpu_fuse p)
{
    PF_DYN_SHARED(block_memory);
    const pf_i32 lane = threadIdx.x & 31;
    const pf_i32 warp = threadIdx.x >> 5;
    const pf_i64 item = (pf_i64)blockIdx.x * (blockDim.x >> 5) + warp;
    const bool has_option = lane < p.n_option;
    const double tie_width = 4.0 * 2.220446049250313e-16;
    double pooled = 0.0;
    pf_best last = {0.0, 0.0};
    pf_i64 n_valid = 0;

    if (item >= p.n_item) {
        return; /* the whole warp */
    }
    const double *row = p.logprob + item * p.n_pass * p.n_option;
#pragma unroll 1
    for (pf_i64 s = 0; s < p.n_pass; s++) {
        const double logprob =
                has_option ? row[s * p.n_option + lane] : -pf_gpu_infinity();
        const pf_said said = pf_read_pass(logprob, p.n_option);

        if (said.total != said.total) {
            continue; /* all lanes alike */
        }
        n_valid++;
        pooled += said.share;
        last = said.best;
    }
    const double scale = 1.0 / (n_valid > 1 ? (double)n_valid : 1.0);
    const bool answered = n_valid > 0 && (!p.is_complete || n_valid == p.n_pass);
    const double posterior = pooled * scale;

    const pf_best pool = pf_rank(posterior, p.n_option);
    const double top = pool.top;
    const double second = pool.second;
    const double slack = tie_width * top;
    pf_u32 tied = 0, best = 0;
#pragma unroll 1
    for (pf_i32 k = 0; k < p.n_option; k++) {
        const double x = pf_of_lane(posterior, k);

        tied |= (top - x <= slack ? 1u : 0u) << k;
        best |= (x == top ? 1u : 0u) << k;
    }
    const bool is_tied = top - second <= slack;
    double margin = 0.0;
    if (!is_tied && n_valid < 2) {
        margin = last.top - last.second;
    }
    else if (!is_tied && second < 1e-290) {
        margin = pf_margin_by_logs(p, row, has_option, lane);
    }
    else if (!is_tied) {
        const double ratio = top / second;

        margin = pf_log_above_one(ratio > 1.0 ? ratio : 1.0);
    }
    const double nothing = pf_gpu_infinity() - pf_gpu_infinity();
    if (has_option) {
        p.posterior[item * p.n_option + lane] = answered ? posterior : nothing;
    }
    if (lane > 0) {
        return;
    }
    pf_i32 answer = 0;
    pf_i32 n_tied = 0;
    while (best >> answer > 1u) { /* the only one, when there is no tie */
        answer++;
    }
#pragma unroll 1
    for (pf_i32 k = 0; k < p.n_option; k++) {
        n_tied += (pf_i32)(tied >> k & 1u);
    }
    if (is_tied && answered) {
        answer = pf_break_tie(
                p.tie_seed[item], tied, p.n_option, block_memory + 32 * warp);
    }
    p.answer[item] = answered ? answer : -1;
    p.margin[item] = answered ? margin : nothing;
    p.n_tied[item] = answered ? n_tied : 0;
    p.n_valid[item] = n_valid;
}
