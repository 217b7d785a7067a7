"""Option orders: which content stands at which letter, and the way back.

An order is a permutation with ``order[position] = content``: position 0 is letter A.
All functions here return orders as int64 of shape (M, K), identity first where it is a
member. What a model says is in letter space; answers and posteriors of different orders
may be compared in content space only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phasefusion import _core
from phasefusion._arrays import as_array
from phasefusion._checks import warn
from phasefusion._random import MASK_64, check_seed, fnv1a64
from phasefusion.errors import OptionError, OptionWarning

MAX_LETTERS = 26
_MAX_ALL = 8  # 8! = 40,320 orders

__all__ = [
    "all_orders",
    "answers_to_content",
    "answers_to_letters",
    "cyclic",
    "distinct",
    "ends",
    "halves",
    "identity",
    "is_balanced",
    "latin",
    "letter_counts",
    "pairs",
    "reverse",
    "shared",
    "to_content",
    "to_letters",
    "validate",
]


def _checked(n_options: int) -> int:
    if isinstance(n_options, bool) or not isinstance(n_options, int | np.integer):
        raise OptionError(f"the number of options must be an int, it is {n_options!r}")
    if not 2 <= n_options <= MAX_LETTERS:
        raise OptionError(
            f"the number of options must be in 2..{MAX_LETTERS} (one letter each), "
            f"it is {n_options}"
        )
    return int(n_options)


def identity(n_options: int) -> NDArray[np.int64]:
    """Order in which the options are given, shape (1, K).

    Examples
    --------
    >>> identity(4)
    array([[0, 1, 2, 3]])
    """
    return np.arange(_checked(n_options), dtype=np.int64)[None]


def reverse(n_options: int) -> NDArray[np.int64]:
    """Order from last to first, shape (1, K).

    Examples
    --------
    >>> reverse(4)
    array([[3, 2, 1, 0]])
    """
    return identity(n_options)[:, ::-1].copy()


def cyclic(n_options: int) -> NDArray[np.int64]:
    """All K rotations, shape (K, K): ``order[v][p] = (p + v) mod K``.

    Every content stands at every letter exactly once, as CircularEval asks [1]_.

    References
    ----------
    .. [1] Liu et al., "MMBench: is your multi-modal model an all-around player?",
       ECCV 2024.

    Examples
    --------
    >>> cyclic(3)
    array([[0, 1, 2],
           [1, 2, 0],
           [2, 0, 1]])
    """
    places = identity(n_options)[0]
    return np.asarray((places[None] + places[:, None]) % len(places), np.int64)


def latin(
    n_options: int,
    n_views: int | None = None,
    *,
    unbalanced: Literal["warn", "allow", "error"] = "warn",
) -> NDArray[np.int64]:
    """Rows of Latin squares, shape (V, K): every content at every letter equally often.

    The first K are the rotations. The next K are those of a second square, and so on:
    first of the squares that step through the options by a number coprime to K, then
    of all others; together they are the K! orders. For a prime K the first K - 1
    squares show every two contents at every two letters equally often, too.

    Parameters
    ----------
    n_options : int
        K, 2 to 26.
    n_views : int, optional
        V in 1..K!, K by default.
    unbalanced : {"warn", "allow", "error"}, default "warn"
        What a V that is not a multiple of K gets: then some contents stand at some
        letters more often than others, and averaging over the views does not cancel a
        letter bias.

    Returns
    -------
    ndarray, shape (V, K), int64
        No row is there twice.

    Raises
    ------
    OptionError
        If K or V is out of range, or V is not a multiple of K and must be.

    Warns
    -----
    OptionWarning
        If V is not a multiple of K.

    See Also
    --------
    is_balanced : whether that holds of any orders

    Examples
    --------
    >>> latin(4)
    array([[0, 1, 2, 3],
           [1, 2, 3, 0],
           [2, 3, 0, 1],
           [3, 0, 1, 2]])
    >>> latin(3, 6)[3:]
    array([[0, 2, 1],
           [2, 1, 0],
           [1, 0, 2]])
    """
    square = cyclic(n_options)
    k = len(square)
    if n_views is None:
        return square
    if not 1 <= n_views <= math.factorial(k):
        raise OptionError(
            f"n_views must be in 1..{math.factorial(k)}, the number of orders of {k} "
            f"options, it is {n_views}"
        )
    if n_views % k and unbalanced != "allow":
        message = (
            f"{n_views} views of {k} options are not balanced; use a multiple of {k}"
        )
        if unbalanced == "error":
            raise OptionError(message)
        warn(message, OptionWarning)
    bases = itertools.islice(_bases(k), -(-n_views // k))
    return np.concatenate([np.array(base)[square] for base in bases])[:n_views]


def _bases(k: int) -> Iterator[tuple[int, ...]]:
    """Yield the first row of every Latin square of rotations of one order."""
    steps = [
        tuple(step * p % k for p in range(k))
        for step in range(1, k)
        if math.gcd(step, k) == 1
    ]
    yield from steps
    for rest in itertools.permutations(range(1, k)):
        if (0, *rest) not in steps:
            yield (0, *rest)


def is_balanced(orders: ArrayLike) -> bool:
    """Whether every content stands at every letter equally often.

    Parameters
    ----------
    orders : array_like, shape (M, K), int

    Raises
    ------
    OptionError
        If a row is no permutation.

    Examples
    --------
    >>> is_balanced(latin(4)), is_balanced(shared(4))
    (True, False)
    """
    checked = validate(orders)
    counts = letter_counts(checked)
    return bool((counts == counts[0, 0]).all())


def letter_counts(orders: ArrayLike) -> NDArray[np.int64]:
    """Count how often each content stands at each letter, shape (K, K).

    Parameters
    ----------
    orders : array_like, shape (M, K), int

    Returns
    -------
    ndarray, shape (K, K), int64
        ``counts[content, position]``.

    Raises
    ------
    OptionError
        If a row is no permutation.

    Examples
    --------
    >>> letter_counts([[0, 1], [0, 1], [1, 0]])
    array([[2, 1],
           [1, 2]])
    """
    checked = validate(orders)
    k = checked.shape[1]
    counts = np.zeros((k, k), dtype=np.int64)
    np.add.at(counts, (checked, np.broadcast_to(np.arange(k), checked.shape)), 1)
    return counts


def ends(n_options: int) -> NDArray[np.int64]:
    """Given order, and the one with the first and the last option exchanged.

    Examples
    --------
    >>> ends(4)
    array([[0, 1, 2, 3],
           [3, 1, 2, 0]])
    """
    found = np.repeat(identity(n_options), 2, axis=0)
    found[1, [0, -1]] = found[1, [-1, 0]]
    return found


def pairs(n_options: int) -> NDArray[np.int64]:
    """Order with neighbours exchanged, "BADC", shape (1, K).

    Examples
    --------
    >>> pairs(4), pairs(3)
    (array([[1, 0, 3, 2]]), array([[1, 0, 2]]))
    """
    found = identity(n_options)
    even = found.shape[1] // 2 * 2
    found[:, :even] = found[:, :even].reshape(-1, 2)[:, ::-1].reshape(1, -1)
    return found


def halves(n_options: int) -> NDArray[np.int64]:
    """Order with the halves exchanged, "CDAB", shape (1, K).

    Examples
    --------
    >>> halves(4), halves(3)
    (array([[2, 3, 0, 1]]), array([[1, 2, 0]]))
    """
    order = identity(n_options)
    return np.roll(order, -(order.shape[1] // 2), axis=1)


def all_orders(n_options: int) -> NDArray[np.int64]:
    """All K! orders in lexicographic order, shape (K!, K); K is at most 8.

    Raises
    ------
    OptionError
        If K is not in 2..8.

    Examples
    --------
    >>> len(all_orders(4))
    24
    """
    if _checked(n_options) > _MAX_ALL:
        raise OptionError(
            f"{n_options} options have {math.factorial(n_options)} orders; ask for "
            "some of them with shared()"
        )
    return np.array(list(itertools.permutations(range(n_options))), dtype=np.int64)


def shared(n_options: int, n: int = 10, seed: int = 0) -> NDArray[np.int64]:
    """Seeded set of orders, the same for every item with the same number of options.

    The identity comes first, then distinct random permutations. Where K! < n (three
    options have six orders) all K! come first and the set then starts again from its
    beginning, so that every item has n passes and the paper's ten orders can be run;
    `distinct` marks the first of each, and rates that count passes must leave the
    repeats out (`stats.order_flip_rates` does). A smaller n gives a prefix.

    Parameters
    ----------
    n_options : int
        K, 2 to 26.
    n : int, default 10
        Number of orders, >= 1.
    seed : int, default 0
        Of splitmix64, mixed with K: the orders do not depend on NumPy's generators.

    Returns
    -------
    ndarray, shape (n, K), int64

    Raises
    ------
    OptionError
        If K or n is out of range.

    See Also
    --------
    distinct : which rows are no repeats

    Examples
    --------
    >>> shared(4, 3)
    array([[0, 1, 2, 3],
           [1, 2, 3, 0],
           [3, 0, 1, 2]])
    >>> shared(3, 10).shape
    (10, 3)
    """
    n_options = _checked(n_options)
    if n < 1:
        raise OptionError(f"n must be >= 1, it is {n}")
    n_distinct = min(n, math.factorial(n_options))
    stream = fnv1a64(f"shared orders of {n_options}") ^ (check_seed(seed) & MASK_64)
    n_draws = 2 * n_distinct
    while True:
        drawn = _core.permutations(stream, n_options, n_draws)
        found = np.concatenate([identity(n_options), drawn])
        found = found[distinct(found)]
        if len(found) >= n_distinct:
            return found[:n_distinct][np.arange(n) % n_distinct]
        n_draws *= 2


def distinct(orders: ArrayLike) -> NDArray[np.bool_]:
    """Mark the rows that do not repeat an earlier row.

    Parameters
    ----------
    orders : array_like, shape (M, K), int

    Returns
    -------
    ndarray, shape (M,), bool
        ``orders[distinct(orders)]`` has no repeats and keeps its order.

    Raises
    ------
    OptionError
        If a row is no permutation.

    Examples
    --------
    >>> distinct([[0, 1], [1, 0], [0, 1]])
    array([ True,  True, False])
    """
    checked = validate(orders)
    mask = np.zeros(len(checked), dtype=np.bool_)
    mask[np.unique(checked, axis=0, return_index=True)[1]] = True
    return mask


def validate(orders: ArrayLike) -> NDArray[np.int64]:
    """Orders as int64 of shape (M, K), checked.

    Parameters
    ----------
    orders : array_like, shape (M, K) or (K,), int

    Returns
    -------
    ndarray, shape (M, K), int64

    Raises
    ------
    OptionError
        If the shape is wrong, the numbers are not whole, or a row is no permutation of
        0 .. K-1.

    Examples
    --------
    >>> validate([1, 0])
    array([[1, 0]])
    """
    given = as_array(orders, "orders", OptionError)
    if given.ndim == 1:
        given = given[None]
    if given.ndim != 2 or given.shape[1] < 1 or given.dtype.kind not in "iu":
        raise OptionError(
            f"orders must be integers of shape (M, K), they are {given.dtype} of shape "
            f"{given.shape}"
        )
    if given.shape[1] > MAX_LETTERS:
        raise OptionError(
            f"orders have {given.shape[1]} options; letters end at {MAX_LETTERS}"
        )
    checked = np.ascontiguousarray(given, dtype=np.int64)
    bad = _core.bad_order(checked)
    if bad >= 0:
        raise OptionError(
            f"orders[{bad}] is {checked[bad].tolist()}, no permutation of "
            f"0..{checked.shape[1] - 1}"
        )
    return checked


def _aligned(
    values: ArrayLike, orders: ArrayLike, name: str
) -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[int, ...]]:
    """Values as (n, M, K), orders as (M, K), and the shape to give back."""
    checked = validate(orders)
    given = np.asarray(as_array(values, name, OptionError, np.nan), dtype=np.float64)
    one = np.ndim(orders) == 1
    wanted = checked.shape[1:] if one else checked.shape
    if given.ndim < len(wanted) or given.shape[given.ndim - len(wanted) :] != wanted:
        raise OptionError(
            f"{name} must end in shape {wanted} to match the orders, its shape is "
            f"{given.shape}"
        )
    return given.reshape(-1, *checked.shape), checked, given.shape


def to_content(letter_values: ArrayLike, orders: ArrayLike) -> NDArray[np.float64]:
    """Move values from letter space to content space.

    ``content[..., m, orders[m, p]] = letter_values[..., m, p]``

    Parameters
    ----------
    letter_values : array_like, shape (..., M, K), or (..., K) with one order
        Log-probabilities or posteriors by letter.
    orders : array_like, shape (M, K) or (K,), int
        ``orders[m, position] = content``.

    Returns
    -------
    ndarray, shape of letter_values, float64

    Raises
    ------
    OptionError
        If a row is no permutation or the shapes do not match.

    Examples
    --------
    >>> to_content([0.7, 0.2, 0.1], [2, 0, 1])
    array([0.2, 0.1, 0.7])
    """
    values, checked, shape = _aligned(letter_values, orders, "letter_values")
    return _core.to_content(values, checked).reshape(shape)


def to_letters(content_values: ArrayLike, orders: ArrayLike) -> NDArray[np.float64]:
    """Move values from content space to letter space; inverse of `to_content`.

    ``letter[..., m, p] = content_values[..., m, orders[m, p]]``

    Parameters
    ----------
    content_values : array_like, shape (..., M, K), or (..., K) with one order
    orders : array_like, shape (M, K) or (K,), int

    Returns
    -------
    ndarray, shape of content_values, float64

    Raises
    ------
    OptionError
        If a row is no permutation or the shapes do not match.

    Examples
    --------
    >>> to_letters([0.2, 0.1, 0.7], [2, 0, 1])
    array([0.7, 0.2, 0.1])
    """
    values, checked, shape = _aligned(content_values, orders, "content_values")
    return _core.to_letters(values, checked).reshape(shape)


def _mapped_answers(
    answers: ArrayLike, tables: NDArray[np.int64], one: bool, name: str
) -> NDArray[np.int64]:
    given = as_array(answers, name, OptionError, -1)
    n_orders, n_options = tables.shape
    if given.dtype.kind not in "iu":
        raise OptionError(f"{name} must be integers, they are {given.dtype}")
    if not one and (given.ndim < 1 or given.shape[-1] != n_orders):
        raise OptionError(
            f"{name} must end in {n_orders} columns, one an order; their shape is "
            f"{given.shape}"
        )
    if given.size and (given.min() < -1 or given.max() >= n_options):
        raise OptionError(
            f"{name} must be in -1..{n_options - 1}, they reach from {given.min()} to "
            f"{given.max()}"
        )
    rows = np.zeros(given.shape, int) if one else np.arange(n_orders)
    found = tables[rows, np.maximum(given, 0)]
    return np.where(given < 0, np.int64(-1), found)


def answers_to_content(answers: ArrayLike, orders: ArrayLike) -> NDArray[np.int64]:
    """Content index of each letter that was answered; -1 (missing) stays -1.

    Parameters
    ----------
    answers : array_like, shape (..., M), or any with one order, int
        Letter positions: A is 0.
    orders : array_like, shape (M, K) or (K,), int

    Returns
    -------
    ndarray, shape of answers, int64

    Raises
    ------
    OptionError
        If a row is no permutation, or an answer is out of range.

    Examples
    --------
    >>> answers_to_content([0, 0, -1], [[0, 1, 2], [2, 0, 1], [1, 0, 2]])
    array([ 0,  2, -1])
    """
    return _mapped_answers(answers, validate(orders), np.ndim(orders) == 1, "answers")


def answers_to_letters(answers: ArrayLike, orders: ArrayLike) -> NDArray[np.int64]:
    """Letter position of each content index; inverse of `answers_to_content`.

    Parameters
    ----------
    answers : array_like, shape (..., M), or any with one order, int
        Content indices; -1 (missing) stays -1.
    orders : array_like, shape (M, K) or (K,), int

    Returns
    -------
    ndarray, shape of answers, int64

    Raises
    ------
    OptionError
        If a row is no permutation, or an answer is out of range.

    Examples
    --------
    >>> answers_to_letters([2, 2], [[0, 1, 2], [2, 0, 1]])
    array([2, 0])
    """
    places = np.argsort(validate(orders), axis=1, kind="stable")
    return _mapped_answers(answers, places, np.ndim(orders) == 1, "answers")
