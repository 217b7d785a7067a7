/* blas.c - see blas.h. cuBLAS counts columns first: a row-major matrix is its
 * transpose.
 */
#include "host/blas.h"

#include "cuda/params.h"

#include "host/block.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of cuBLAS's interface. */
enum {
    OP_N = 0,
    OP_T = 1,
    TYPE_F32 = 0,
    TYPE_S8 = 3,
    TYPE_S32 = 10,
    TYPE_BF16 = 14,
    COMPUTE_F32 = 68,
    COMPUTE_S32 = 72,
    ALGORITHM_DEFAULT = -1
};

enum {
    MAX_VALUE = 256, /* whole numbers up to here are exact in bfloat16 */
    MAX_SUM = 1 << 24,
    MAX_GRAM_VALUES = 1 << 17,
    MAX_CLUSTERS = 48 * 1024, /* counts of a block in shared memory */
    CHUNK = 4096,             /* resamples at a time */
    COUNT_THREADS = 256,
    GRAM_ALIGN = 16 /* bytes; integer products want at least 4 */
};

static pf_status
check(int status, const char *call, pf_failure *failure)
{
    return status == 0 ? PF_OK
                       : pf_failure_say(failure, "%s: cuBLAS status %d", call, status);
}

pf_status
pf_blas_open(pf_blas *blas, pf_device *device, const char *path, pf_failure *failure)
{
    pf_status st;

    *blas = (pf_blas){.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (blas->library == NULL) {
        return pf_failure_say(failure, "no cuBLAS: %.200s", dlerror());
    }
#define FIND(name, parameters)                                                         \
    {                                                                                  \
        void *found = dlsym(blas->library, #name);                                     \
        memcpy(&blas->name, &found, sizeof found);                                     \
        if (found == NULL) {                                                           \
            return pf_failure_say(failure, "%.150s has no %s", path, #name);           \
        }                                                                              \
    }
    PF_BLAS_FUNCTIONS(FIND)
#undef FIND
    st = pf_device_enter(device, failure);
    if (st != PF_OK) {
        return st;
    }
    st = check(blas->cublasCreate_v2(&blas->handle), "cublasCreate", failure);
    return pf_device_leave(device, st, failure);
}

/* The bits of a whole number in bfloat16; exact up to MAX_VALUE. */
static uint16_t
to_bfloat16(int value)
{
    const float exact = (float)value;
    uint32_t bits;

    memcpy(&bits, &exact, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* The values in bfloat16, to be freed; PF_EDOMAIN when a product could not be exact. */
static pf_status
convert_values(const pf_gpu_bootstrap *request, uint16_t **converted)
{
    const int64_t n = request->n_cluster * request->n_column;
    int64_t greatest = 0;

    for (int64_t i = 0; i < n; i++) {
        const int64_t size = labs(request->value[i]);

        greatest = size > greatest ? size : greatest;
    }
    if (greatest > MAX_VALUE || greatest * request->n_cluster > MAX_SUM) {
        return PF_EDOMAIN;
    }
    *converted = calloc((size_t)n, sizeof **converted);
    if (*converted == NULL) {
        return PF_ENOMEM;
    }
    for (int64_t i = 0; i < n; i++) {
        (*converted)[i] = to_bfloat16(request->value[i]);
    }
    return PF_OK;
}

/* Resamples first .. first + n - 1 of the values; product has room for their sums. */
typedef struct chunk {
    const uint16_t *values;
    float *product;
    int64_t first;
    int64_t n;
} chunk;

/* Their counts and the product of these with the values. */
static pf_status
multiply(pf_blas *blas, pf_device *device, const pf_gpu_bootstrap *request,
        pf_block *block, const chunk *part, pf_failure *failure)
{
    const int column = (int)request->n_column;
    const int cluster = (int)request->n_cluster;
    const float one = 1.0f, zero = 0.0f;
    const pf_gpu_counts params = {
            .count = (unsigned short *)block->part[1].address,
            .most = (unsigned *)block->part[3].address,
            .seed = request->seed,
            .first_resample = part->first,
            .n_cluster = cluster,
    };
    const pf_launch launch = {.kernel = PF_KERNEL_pf_resample_counts,
            .grid = {(unsigned)part->n, 1, 1},
            .block = {COUNT_THREADS, 1, 1},
            .shared_bytes = ((size_t)cluster + 1) * sizeof(uint32_t),
            .params = &params,
            .stream = block->stream};
    pf_status st = pf_device_launch(device, &launch, failure);

    if (st == PF_OK) {
        st = check(blas->cublasSetStream_v2(blas->handle, block->stream),
                "cublasSetStream", failure);
    }
    if (st != PF_OK) {
        return st;
    }
    return check(blas->cublasGemmEx(blas->handle, OP_N, OP_N, column, (int)part->n,
                         cluster, &one, (const void *)block->part[0].address, TYPE_BF16,
                         column, (const void *)block->part[1].address, TYPE_BF16,
                         cluster, &zero, (void *)block->part[2].address, TYPE_F32,
                         column, COMPUTE_F32, ALGORITHM_DEFAULT),
            "cublasGemmEx", failure);
}

static pf_status
run_chunk(pf_blas *blas, pf_device *device, const pf_gpu_bootstrap *request,
        const chunk *part, pf_failure *failure)
{
    const size_t n_sum = (size_t)(part->n * request->n_column);
    const size_t first_sum = (size_t)(part->first * request->n_column);
    const size_t item_bytes = sizeof *part->values;
    uint32_t most = 0;
    pf_block block = {.stream = device->stream};
    pf_status st;

    block.part[0] = (pf_block_part){.from = part->values,
            .n_byte = (size_t)(request->n_cluster * request->n_column) * item_bytes};
    block.part[1] = (pf_block_part){
            .n_byte = (size_t)(part->n * request->n_cluster) * item_bytes};
    block.part[2] = (pf_block_part){
            .to = part->product, .n_byte = n_sum * sizeof *part->product};
    block.part[3] = (pf_block_part){.from = &most, .to = &most, .n_byte = sizeof most};
    st = pf_block_open(device, &block, failure);
    if (st == PF_OK) {
        st = multiply(blas, device, request, &block, part, failure);
    }
    st = pf_block_close(device, &block, st, failure);
    if (st != PF_OK || most > MAX_VALUE) {
        return st != PF_OK ? st : PF_EDOMAIN;
    }
    for (size_t i = 0; i < n_sum; i++) {
        request->sums[first_sum + i] = (int64_t)part->product[i];
    }
    return PF_OK;
}

pf_status
pf_blas_bootstrap(pf_blas *blas, pf_device *device, const pf_gpu_bootstrap *request,
        pf_failure *failure)
{
    uint16_t *values = NULL;
    float *product;
    pf_status st;

    if (request->n_cluster < 1 || request->n_cluster > MAX_CLUSTERS ||
            request->n_column < 1 || request->n_column > MAX_SUM ||
            request->n_resample < 0) {
        return PF_EINVAL;
    }
    st = convert_values(request, &values);
    if (st != PF_OK) {
        return st;
    }
    product = calloc((size_t)(CHUNK * request->n_column), sizeof *product);
    st = product == NULL ? PF_ENOMEM : pf_device_enter(device, failure);
    if (st == PF_OK) {
        for (int64_t i = 0; st == PF_OK && i < request->n_resample; i += CHUNK) {
            const int64_t left = request->n_resample - i;
            const chunk part = {values, product, i, left < CHUNK ? left : CHUNK};

            st = run_chunk(blas, device, request, &part, failure);
        }
        st = pf_device_leave(device, st, failure);
    }
    free(product);
    free(values);
    return st;
}

/* x with rows of a whole number of GRAM_ALIGN bytes, zeros at their ends. */
static int8_t *
pad_rows(const int8_t *x, size_t n_row, size_t n_value, size_t padded)
{
    int8_t *rows = calloc(n_row, padded);

    for (size_t i = 0; rows != NULL && i < n_row; i++) {
        memcpy(rows + i * padded, x + i * n_value, n_value);
    }
    return rows;
}

static pf_status
multiply_groups(pf_blas *blas, const pf_block *block, const int64_t shape[3],
        size_t padded, pf_failure *failure)
{
    const int n_row = (int)shape[1];
    const int32_t one = 1, zero = 0;
    const void *rows = (const void *)block->part[0].address;
    const long long stride = (long long)n_row * (long long)padded;
    const pf_status st = check(blas->cublasSetStream_v2(blas->handle, block->stream),
            "cublasSetStream", failure);

    if (st != PF_OK) {
        return st;
    }
    return check(
            blas->cublasGemmStridedBatchedEx(blas->handle, OP_T, OP_N, n_row, n_row,
                    (int)padded, &one, rows, TYPE_S8, (int)padded, stride, rows,
                    TYPE_S8, (int)padded, stride, &zero, (void *)block->part[1].address,
                    TYPE_S32, n_row, (long long)n_row * n_row, (int)shape[0],
                    COMPUTE_S32, ALGORITHM_DEFAULT),
            "cublasGemmStridedBatchedEx", failure);
}

pf_status
pf_blas_gram(pf_blas *blas, pf_device *device, const int8_t *x, const int64_t shape[3],
        int32_t *gram, pf_failure *failure)
{
    const size_t n_row = (size_t)shape[1];
    const size_t padded = ((size_t)shape[2] + GRAM_ALIGN - 1) / GRAM_ALIGN * GRAM_ALIGN;
    pf_block block = {.stream = device->stream};
    int8_t *rows;
    pf_status st;

    if (shape[0] < 1 || shape[1] < 1 || shape[2] < 1 || shape[0] > MAX_SUM ||
            shape[1] > MAX_CLUSTERS || shape[2] > MAX_GRAM_VALUES) {
        return PF_EINVAL;
    }
    rows = pad_rows(x, (size_t)shape[0] * n_row, (size_t)shape[2], padded);
    if (rows == NULL) {
        return PF_ENOMEM;
    }
    block.part[0] =
            (pf_block_part){.from = rows, .n_byte = (size_t)shape[0] * n_row * padded};
    block.part[1] = (pf_block_part){
            .to = gram, .n_byte = (size_t)shape[0] * n_row * n_row * sizeof *gram};
    st = pf_device_enter(device, failure);
    if (st == PF_OK) {
        st = pf_block_open(device, &block, failure);
        if (st == PF_OK) {
            st = multiply_groups(blas, &block, shape, padded, failure);
        }
        st = pf_block_close(device, &block, st, failure);
        st = pf_device_leave(device, st, failure);
    }
    free(rows);
    return st;
}
