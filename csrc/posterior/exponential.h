/* exponential.h - exp of numbers <= 0 and log of numbers >= 1, written so that a loop
 * over them vectorises. */
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

/*
 * log x for finite x >= 1, within 2 units in the last place; 0 at 1.
 *
 * x = 2^n m with m in [sqrt(1/2), sqrt(2)), then log m = 2 artanh(s), s = (m-1)/(m+1),
 * |s| < 0.172, as its series up to s^23 (the next term is below 4e-21).
 */
static inline double
pf_log_above_one(double x)
{
    const double magic = 6755399441055744.0; /* holds an integer in its low bits */
    const uint64_t half_root = UINT64_C(0x3fe6a09e667f3bcd); /* sqrt(1/2) */
    uint64_t bits;
    uint64_t exponent;
    double n;
    double m;
    double s;
    double square;
    double series = 1.0 / 23.0;

    memcpy(&bits, &x, sizeof bits);
    exponent = (bits - half_root) >> 52; /* x >= 1: below 1024 */
    bits -= exponent << 52;
    memcpy(&m, &bits, sizeof m);
    exponent += UINT64_C(0x4338000000000000); /* the bits of magic */
    memcpy(&n, &exponent, sizeof n);
    n -= magic;
    s = (m - 1.0) / (m + 1.0);
    square = s * s;
    series = series * square + 1.0 / 21.0;
    series = series * square + 1.0 / 19.0;
    series = series * square + 1.0 / 17.0;
    series = series * square + 1.0 / 15.0;
    series = series * square + 1.0 / 13.0;
    series = series * square + 1.0 / 11.0;
    series = series * square + 1.0 / 9.0;
    series = series * square + 1.0 / 7.0;
    series = series * square + 1.0 / 5.0;
    series = series * square + 1.0 / 3.0;
    /* the greatest parts are added last; n times the first part of ln 2 is exact */
    return n * 0x1.62e42fee00000p-1 +
           (2.0 * s + (2.0 * s * square * series + n * 0x1.a39ef35793c76p-33));
}

#endif /* PF_EXPONENTIAL_H */
