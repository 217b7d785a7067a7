/* exponential.h - exp of numbers <= 0, written so that a loop over it vectorises. */
#ifndef PF_EXPONENTIAL_H
#define PF_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

/*
 * e^x for x in [-inf, 0] (0 for NaN), within 2 units in the last place; exactly 1 at 0
 * and exactly 0 below -708, where e^x leaves the normal range.
 *
 * x = n ln 2 + r with |r| <= ln(2)/2, then the Taylor polynomial of e^r up to r^13 (the
 * next term is below 5e-18) and n added to the exponent. No branch and no table, so the
 * result is the same for every vector width.
 */
static inline double
pf_exp_nonpositive(double x)
{
    /* adding 1.5 * 2^52 rounds to an integer, which then sits in the low bits */
    const double magic = 6755399441055744.0;
    const double clamped = x > -708.0 ? x : -708.0;
    const double shifted = clamped * 1.4426950408889634 + magic;
    const double n = shifted - magic;
    /* ln 2 in two parts; n times the first is exact */
    const double r = (clamped - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    double power = 1.0 / 6227020800.0;
    double result;
    uint64_t exponent;
    uint64_t bits;

    power = power * r + 1.0 / 479001600.0;
    power = power * r + 1.0 / 39916800.0;
    power = power * r + 1.0 / 3628800.0;
    power = power * r + 1.0 / 362880.0;
    power = power * r + 1.0 / 40320.0;
    power = power * r + 1.0 / 5040.0;
    power = power * r + 1.0 / 720.0;
    power = power * r + 1.0 / 120.0;
    power = power * r + 1.0 / 24.0;
    power = power * r + 1.0 / 6.0;
    power = power * r + 0.5;
    power = power * r + 1.0;
    power = power * r + 1.0;
    memcpy(&exponent, &shifted, sizeof exponent);
    memcpy(&bits, &power, sizeof bits);
    bits += exponent << 52;
    memcpy(&result, &bits, sizeof result);
    return x >= -708.0 ? result : 0.0;
}

#endif /* PF_EXPONENTIAL_H */
