/* layout.cpp - whether the emulated product of matrices has the fragments of the PTX
 * manual (mma.m16n8k32, 8-bit integers); by its formulas, which go from the elements of
 * a lane to rows and columns, where cuemu.h goes the other way.
 *
 * Prints what is wrong; exit code 0 when nothing is. */
#include "cuemu.h"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#include "scheduler.h"

#include <cstdio>
#include <cstdlib>

namespace {

constexpr unsigned M = 16, N = 8, K = 32, LANES = 32;

struct matrices {
    unsigned char a[M][K], b[K][N];
    int c[M][N];
    bool is_signed;
};

/* Element i of what a lane holds; groupID is lane / 4, threadID_in_group lane % 4. */
unsigned
row_of_a(unsigned lane, unsigned i)
{
    return i < 4 || (i >= 8 && i < 12) ? lane / 4 : lane / 4 + 8;
}
unsigned
column_of_a(unsigned lane, unsigned i)
{
    return lane % 4 * 4 + i % 4 + (i < 8 ? 0 : 16);
}
unsigned
row_of_b(unsigned lane, unsigned i)
{
    return lane % 4 * 4 + i % 4 + (i < 4 ? 0 : 16);
}
unsigned
column_of_b(unsigned lane, unsigned)
{
    return lane / 4;
}
unsigned
row_of_c(unsigned lane, unsigned i)
{
    return i < 2 ? lane / 4 : lane / 4 + 8;
}
unsigned
column_of_c(unsigned lane, unsigned i)
{
    return lane % 4 * 2 + i % 2;
}

/* One warp: a lane takes its elements, and puts back its part of the product. */
void
run(const void *params)
{
    matrices &m = **static_cast<matrices *const *>(params);
    const unsigned lane = cuemu_current->linear;
    unsigned a[4] = {0}, b[2] = {0};
    int c[4];

    for (unsigned i = 0; i < 16; i++) {
        a[i / 4] |= unsigned{m.a[row_of_a(lane, i)][column_of_a(lane, i)]} << i % 4 * 8;
    }
    for (unsigned i = 0; i < 8; i++) {
        b[i / 4] |= unsigned{m.b[row_of_b(lane, i)][column_of_b(lane, i)]} << i % 4 * 8;
    }
    for (unsigned i = 0; i < 4; i++) {
        c[i] = m.c[row_of_c(lane, i)][column_of_c(lane, i)];
    }
    if (m.is_signed) {
        cuemu_mma<true>(c, a, b, __LINE__);
    }
    else {
        cuemu_mma<false>(c, a, b, __LINE__);
    }
    for (unsigned i = 0; i < 4; i++) {
        m.c[row_of_c(lane, i)][column_of_c(lane, i)] = c[i];
    }
}

/* Whether the product of the matrices is right; c is what it is added to. */
bool
is_right(const matrices &given)
{
    matrices made = given, *at = &made;

    if (cuemu_run({"layout", run, &at, {1, 1, 1}, {LANES, 1, 1}, 0}) != nullptr) {
        return false;
    }
    for (unsigned i = 0; i < M; i++) {
        for (unsigned j = 0; j < N; j++) {
            int sum = given.c[i][j];

            for (unsigned k = 0; k < K; k++) {
                sum += (given.is_signed ? static_cast<signed char>(given.a[i][k])
                                        : given.a[i][k]) *
                       given.b[k][j];
            }
            if (made.c[i][j] != sum) {
                return false;
            }
        }
    }
    return true;
}

} // namespace

int
main()
{
    unsigned n_wrong = 0;

    /* every element of either matrix alone, then all at once */
    for (unsigned e = 0; e < M * K + K * N + 20; e++) {
        matrices m = {};

        m.is_signed = e % 2 != 0;
        for (unsigned i = 0; i < M * K; i++) {
            const bool all = e >= M * K;
            m.a[i / K][i % K] = static_cast<unsigned char>(all ? rand() : i == e);
        }
        for (unsigned i = 0; i < K * N; i++) {
            const bool all = e < M * K || e >= M * K + K * N;
            m.b[i / N][i % N] =
                    static_cast<unsigned char>(all ? rand() : i == e - M * K);
        }
        for (unsigned i = 0; i < M * N; i++) {
            m.c[i / N][i % N] = rand() % 2000 - 1000;
        }
        if (!is_right(m)) {
            printf("element %u\n", e);
            n_wrong++;
        }
    }
    return n_wrong > 0 ? 1 : 0;
}
