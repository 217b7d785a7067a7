"""Slow twins of the kernels that draw, rank or split; equal for a seed, bit by bit."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
from oracle import tie_break

GAMMA = 0x9E3779B97F4A7C15


class Stream:
    """Generator of one replicate: splitmix64 from output number r of the seed's."""

    def __init__(self, seed, r):
        self.state = (seed + r * GAMMA) % 2**64
        self.state = self.word()

    def word(self):
        self.state = (self.state + GAMMA) % 2**64
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    def indices(self, bound, n):
        """In blocks of 64 as the kernel: a block begins with a word of its own."""
        found = []
        while len(found) < n:
            wanted = 64 if n - len(found) >= 64 else n - len(found)
            block = []
            while len(block) < wanted:
                word = self.word()
                for half in (word % 2**32, word >> 32):
                    if half * bound % 2**32 >= 2**32 % bound and len(block) < wanted:
                        block.append(half * bound >> 32)
            found += block
        return found

    def binomial(self, n, p):
        """Compare n uniform numbers with the fraction p, bit by bit."""
        successes = 0
        while n > 64:
            words = [self.word() for _ in range(-(-n // 64))]
            if n % 64:
                words[-1] >>= 64 - n % 64
            still_open = sum(word.bit_count() for word in words)
            p *= 2
            if p >= 1:
                p -= 1
                successes += n - still_open
            n = still_open
        trials = set(range(n))
        while trials:
            for word in [self.word() for _ in range(12)]:
                closed = {i for i in trials if not word >> i & 1}
                trials -= closed
                p *= 2
                if p >= 1:
                    p -= 1
                    successes += len(closed)
        return successes


def placements2(positive, score):
    """Twice the items of the other class below each, half for equals, by pairs."""
    pairs = list(zip(positive, score, strict=True))
    return [
        sum((a != b) * ((s > t) * 2 + (s == t)) for b, t in pairs) for a, s in pairs
    ]


def area(positive, score):
    above = [s for p, s in zip(positive, score, strict=True) if p]
    below = [s for p, s in zip(positive, score, strict=True) if not p]
    if not above or not below:
        return math.nan
    halves = sum((s > t) * 2 + (s == t) for s in above for t in below)
    return halves / (2 * len(above) * len(below))


def ranking_bootstrap(positive, score, n_resamples, seed):
    """Areas of resampled items given in ascending order."""
    n, made = len(score), []
    for r in range(n_resamples):
        drawn = Stream(seed, r).indices(n, n)
        made.append(area([positive[i] for i in drawn], [score[i] for i in drawn]))
    return made


def resample_sums(numerators, denominators, n_clusters, n_resamples, seed):
    """Binomials of the leading large classes, then the other clusters one by one."""
    g, sums = int(sum(n_clusters)), []
    n_large = next((c for c, n in enumerate(n_clusters) if n < 16), len(n_clusters))
    members = np.repeat(np.arange(len(n_clusters)), n_clusters)
    for r in range(n_resamples):
        stream, left, others = Stream(seed, r), g, g
        drawn = []
        for c in range(n_large):
            n_here = int(n_clusters[c])
            p = Fraction(n_here, others)
            n = left if p == 1 else stream.binomial(left, p)
            drawn += [c] * n
            left, others = left - n, others - n_here
        if left:
            drawn += members[g - others :][stream.indices(others, left)].tolist()
        sums.append([sum(numerators[drawn]), sum(denominators[drawn])])
    return np.array(sums, dtype=float).reshape(-1, 2)


def vote(answers, seed, n_options):
    """Winner and tie set; without a seed the lowest of the tied wins."""
    counts = Counter(answers)
    tied = {k for k in counts if counts[k] == max(counts.values())}
    return min(tied) if seed is None else tie_break(seed, tied, n_options), tied


def matched_votes(answers, n_options, halves, seeds):
    """Differences, ties and expected agreements, split by split; the last as sums."""
    rows = []
    for i, item in enumerate(answers):
        seed = None if seeds is None else int(seeds[i])
        within = across = ties = 0
        agree = [Fraction(0), Fraction(0)]
        for half in halves:
            votes = [
                [vote(phase[half == h].tolist(), seed, n_options[i]) for h in (1, 2)]
                for phase in item
            ]
            ties += sum(len(tied) > 1 for both in votes for _, tied in both)
            for s, t in itertools.product(range(len(votes)), repeat=2):
                (a, first), (b, second) = votes[s][0], votes[t][1]
                within += s == t and a != b
                across += s != t and a != b
                share = Fraction(len(first & second), len(first) * len(second))
                agree[s != t] += share
        rows.append((within, across, ties, *agree))
    return rows
