/* blas.h - cuBLAS, opened at run time, for two products that are exact. */
#ifndef PF_HOST_BLAS_H
#define PF_HOST_BLAS_H

#include "host/device.h"

#define PF_BLAS_FUNCTIONS(X)                                                           \
    X(cublasCreate_v2, (void **handle))                                                \
    X(cublasSetStream_v2, (void *handle, void *stream))                                \
    X(cublasGemmEx, (void *handle, int op_a, int op_b, int m, int n, int k,            \
                            const void *alpha, const void *a, int type_a, int lda,     \
                            const void *b, int type_b, int ldb, const void *beta,      \
                            void *c, int type_c, int ldc, int compute, int algorithm)) \
    X(cublasGemmStridedBatchedEx,                                                      \
            (void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, \
                    const void *a, int type_a, int lda, long long stride_a,            \
                    const void *b, int type_b, int ldb, long long stride_b,            \
                    const void *beta, void *c, int type_c, int ldc,                    \
                    long long stride_c, int batch, int compute, int algorithm))

#define PF_BLAS_MEMBER(name, parameters) int(*name) parameters;
typedef struct pf_blas {
    void *library;
    void *handle;
    PF_BLAS_FUNCTIONS(PF_BLAS_MEMBER)
} pf_blas;
#undef PF_BLAS_MEMBER

/* Opens the library at path for a device, which it serves as long as the process lives.
 * PF_EBACKEND, with the reason. */
PF_NODISCARD pf_status pf_blas_open(
        pf_blas *blas, pf_device *device, const char *path, pf_failure *failure);

/* sums[r, j] = sum over clusters of how often resample r draws the cluster, times
 * value[cluster, j]; the clusters are those of pf_resample_indices(n_cluster, seed,
 * ..).
 *
 * value (n_cluster, n_column), whole numbers from -256 to 256; sums (n_resample,
 * n_column), out. Counts and values are exact in bfloat16, and every partial sum is in
 * float32 while n_cluster times the greatest value is at most 2^24; PF_EDOMAIN
 * otherwise, and when a cluster is drawn more than 256 times. */
typedef struct pf_gpu_bootstrap {
    const int16_t *value;
    int64_t n_cluster;
    int64_t n_column;
    uint64_t seed;
    int64_t n_resample;
    int64_t *sums;
} pf_gpu_bootstrap;

PF_NODISCARD pf_status pf_blas_bootstrap(pf_blas *blas, pf_device *device,
        const pf_gpu_bootstrap *request, pf_failure *failure);

/* gram[g, i, j] = sum over d of x[g, i, d] * x[g, j, d], of signed bytes.
 *
 * x (n_group, n_row, n_value) and gram (n_group, n_row, n_row) are the host's. n_value
 * is at most 2^17, so that no sum leaves an int32; PF_EINVAL otherwise. */
PF_NODISCARD pf_status pf_blas_gram(pf_blas *blas, pf_device *device, const int8_t *x,
        const int64_t shape[3], int32_t *gram, pf_failure *failure);

#endif /* PF_HOST_BLAS_H */
