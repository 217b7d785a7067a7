/* cublas.cpp - the products that are asked of cuBLAS, done slowly, and every way in
 * which their layout can be wrong. */
#include "machine.h"

#include <cstring>

namespace {

enum {
    BLAS_SUCCESS = 0,
    NOT_INITIALIZED = 1,
    BLAS_INVALID_VALUE = 7,
    NOT_SUPPORTED = 15
};
enum { OP_N = 0, OP_T = 1, F32 = 0, S8 = 3, S32 = 10, BF16 = 14 };
enum { COMPUTE_F32 = 68, COMPUTE_S32 = 72 };

struct handle {
    void *on;
};

/* A matrix that counts columns first. */
struct matrix {
    uintptr_t data;
    int type, op, ld;
    int n_row, n_column; /* as stored */
};

size_t
size_of(int type)
{
    return type == S8 ? 1 : type == BF16 ? 2 : 4;
}

/* Whether the leading dimension, the alignment and the memory are right. */
bool
is_sane(const matrix &m, bool integers)
{
    const size_t n_value = static_cast<size_t>(m.ld) * (m.n_column - 1) + m.n_row;

    if (m.ld < m.n_row || m.data % size_of(m.type) != 0) {
        return false;
    }
    if (integers && m.type == S8 && (m.ld % 4 != 0 || m.data % 4 != 0)) {
        return false; /* integer products need whole words */
    }
    return is_inside(device_memory, m.data, n_value * size_of(m.type));
}

double
value_at(const matrix &m, int row, int column)
{
    const int i = m.op == OP_N ? row : column;
    const int j = m.op == OP_N ? column : row;
    const size_t at = static_cast<size_t>(m.ld) * j + i;

    if (m.type == S8) {
        return reinterpret_cast<const int8_t *>(m.data)[at];
    }
    const uint32_t bits =
            static_cast<uint32_t>(reinterpret_cast<const uint16_t *>(m.data)[at]) << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* In float32 or int32, as asked, one term after the other. */
void
multiply(const matrix &a, const matrix &b, const matrix &c, int k, bool integers)
{
    for (int j = 0; j < c.n_column; j++) {
        for (int i = 0; i < c.n_row; i++) {
            const size_t at = static_cast<size_t>(c.ld) * j + i;
            float real = 0.0f;
            int32_t whole = 0;

            for (int t = 0; t < k; t++) {
                if (integers) {
                    whole +=
                            static_cast<int32_t>(value_at(a, i, t) * value_at(b, t, j));
                }
                else {
                    real += static_cast<float>(value_at(a, i, t)) *
                            static_cast<float>(value_at(b, t, j));
                }
            }
            if (integers) {
                reinterpret_cast<int32_t *>(c.data)[at] = whole;
            }
            else {
                reinterpret_cast<float *>(c.data)[at] = real;
            }
        }
    }
}

bool
is_one_and_zero(const void *alpha, const void *beta, bool integers)
{
    const float one = 1.0f;
    const int32_t whole = 1;
    const uint32_t zero = 0;

    return memcmp(alpha, integers ? static_cast<const void *>(&whole) : &one, 4) == 0 &&
           memcmp(beta, &zero, 4) == 0;
}

} // namespace

#define API extern "C" __attribute__((visibility("default"))) int

API
cublasCreate_v2(void **made)
{
    if (const int failed = called("cublasCreate_v2")) {
        return failed;
    }
    if (current() == nullptr) {
        return NOT_INITIALIZED;
    }
    *made = new handle{nullptr};
    return BLAS_SUCCESS;
}

API
cublasSetStream_v2(void *h, void *on)
{
    if (const int failed = called("cublasSetStream_v2")) {
        return failed;
    }
    if (!is_stream(on)) {
        return BLAS_INVALID_VALUE;
    }
    static_cast<handle *>(h)->on = on;
    return BLAS_SUCCESS;
}

API
cublasGemmStridedBatchedEx(void *h, int op_a, int op_b, int m, int n, int k,
        const void *alpha, const void *a, int type_a, int lda, long long stride_a,
        const void *b, int type_b, int ldb, long long stride_b, const void *beta,
        void *c, int type_c, int ldc, long long stride_c, int batch, int compute, int)
{
    const bool integers = compute == COMPUTE_S32;

    if (const int failed = called("cublasGemmStridedBatchedEx")) {
        return failed;
    }
    if (current() == nullptr || type_a != type_b || type_a != (integers ? S8 : BF16) ||
            type_c != (integers ? S32 : F32) ||
            (compute != COMPUTE_S32 && compute != COMPUTE_F32) ||
            !is_one_and_zero(alpha, beta, integers)) {
        return NOT_SUPPORTED;
    }
    for (long long g = 0; g < batch; g++) {
        const uintptr_t at_a =
                reinterpret_cast<uintptr_t>(a) + g * stride_a * size_of(type_a);
        const uintptr_t at_b =
                reinterpret_cast<uintptr_t>(b) + g * stride_b * size_of(type_b);
        const uintptr_t at_c =
                reinterpret_cast<uintptr_t>(c) + g * stride_c * size_of(type_c);
        const matrix of_a = {
                at_a, type_a, op_a, lda, op_a == OP_N ? m : k, op_a == OP_N ? k : m};
        const matrix of_b = {
                at_b, type_b, op_b, ldb, op_b == OP_N ? k : n, op_b == OP_N ? n : k};
        const matrix of_c = {at_c, type_c, OP_N, ldc, m, n};

        if (!is_sane(of_a, integers) || !is_sane(of_b, integers) ||
                !is_sane(of_c, integers)) {
            return BLAS_INVALID_VALUE;
        }
        enqueue(static_cast<handle *>(h)->on,
                [=] { multiply(of_a, of_b, of_c, k, integers); });
    }
    return BLAS_SUCCESS;
}

API
cublasGemmEx(void *h, int op_a, int op_b, int m, int n, int k, const void *alpha,
        const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
        const void *beta, void *c, int type_c, int ldc, int compute, int algorithm)
{
    if (const int failed = called("cublasGemmEx")) {
        return failed;
    }
    return cublasGemmStridedBatchedEx(h, op_a, op_b, m, n, k, alpha, a, type_a, lda, 0,
            b, type_b, ldb, 0, beta, c, type_c, ldc, 0, 1, compute, algorithm);
}
