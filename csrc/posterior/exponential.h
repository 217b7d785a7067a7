/* exponential.h - exp of numbers <= 0 and log of numbers >= 1, written so that a loop
 * over them vectorises. */
#ifndef PF_EXPONENTIAL_H
#define PF_EXPONENTIAL_H

/* Device code, which reads this too, says what stands for the headers and the storage
 * class. */
#ifndef PF_EXPONENTIAL_FUNCTION
#include <stdint.h>
#include <string.h>
#define PF_EXPONENTIAL_FUNCTION static inline
#endif

/*
 * e^x for x in [-inf, 0] and NaN, within 2 units in the last place; exactly 1 at 0,
 * exactly 0 below -709, NaN for NaN. Between -709 and -708, where e^x leaves the normal
 * range, within 2^-1074, or 0.
 *
 * x = n ln 2 + r with |r| <= ln(2)/2, then e^r = 1 + r + r^2 q(r), q the polynomial of
 * degree 9 with the least relative error in e^r there (2e-17, an eighth of a rounding
 * error), its coefficients rounded one after the other and evaluated in pairs, which
 * keeps chains short; then times 2^n, which is 0 where n is -1023. No branch and no
 * table, so the result is the same for every vector width.
 */
PF_EXPONENTIAL_FUNCTION double
pf_exp_nonpositive(double x)
{
    /* 1.5 * 2^52 rounds what is added to it to an integer, which then sits in the low
     * bits; the bias of exponents is added with it */
    const double magic = 6755399441055744.0 + 1023.0;
    const double clamped = -709.0 > x ? -709.0 : x; /* NaN stays */
    const double shifted = clamped * 1.4426950408889634 + magic;
    const double n = shifted - magic;
    /* ln 2 in two parts; n times the first is exact */
    const double r = (clamped - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    const double r2 = r * r;
    const double r4 = r2 * r2;
    const double q01 = 0x1.0000000000009p-1 + 0x1.55555555553abp-3 * r;
    const double q23 = 0x1.5555555550874p-5 + 0x1.1111111145267p-7 * r;
    const double q45 = 0x1.6c16c185687f3p-10 + 0x1.a01a016a54012p-13 * r;
    const double q67 = 0x1.a01993d12ce82p-16 + 0x1.71dd0e3f2a796p-19 * r;
    const double q89 = 0x1.28b539b860b96p-22 + 0x1.b2c3887b52c3fp-26 * r;
    const double q = (q01 + r2 * q23) + r4 * ((q45 + r2 * q67) + r4 * q89);
    uint64_t bits;
    double power_of_2;

    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52;
    memcpy(&power_of_2, &bits, sizeof bits);
    return (1.0 + (r + r2 * q)) * power_of_2;
}

/*
 * log x for finite x >= 1, within 2 units in the last place; 0 at 1.
 *
 * x = 2^n m with m in [sqrt(1/2), sqrt(2)), then log m = 2 artanh(s), s = (m-1)/(m+1),
 * |s| < 0.172, as 2 s (1 + s^2 q(s^2)), q the polynomial of degree 6 with the least
 * relative error (2e-18), its coefficients rounded one after the other.
 */
PF_EXPONENTIAL_FUNCTION double
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
    double fourth;
    double q;

    memcpy(&bits, &x, sizeof bits);
    exponent = (bits - half_root) >> 52; /* x >= 1: below 1024 */
    bits -= exponent << 52;
    memcpy(&m, &bits, sizeof m);
    exponent += UINT64_C(0x4338000000000000); /* the bits of magic */
    memcpy(&n, &exponent, sizeof n);
    n -= magic;
    s = (m - 1.0) / (m + 1.0);
    square = s * s;
    fourth = square * square;
    q = (0x1.74663ceced00ap-4 + square * 0x1.39a1e8d82fee0p-4) +
        fourth * 0x1.2f03b98b4e756p-4;
    q = (0x1.24924941e154bp-3 + square * 0x1.c71c521452b93p-4) + fourth * q;
    q = (0x1.5555555555592p-2 + square * 0x1.999999997ff19p-3) + fourth * q;
    /* the greatest parts are added last; n times the first part of ln 2 is exact */
    return n * 0x1.62e42fee00000p-1 +
           (2.0 * s + (2.0 * s * square * q + n * 0x1.a39ef35793c76p-33));
}

#endif /* PF_EXPONENTIAL_H */
