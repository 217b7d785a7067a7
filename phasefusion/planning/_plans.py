"""What all plans share: designs with clusters, the search for n, how results print."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from phasefusion._wording import Argument, counted
from phasefusion.errors import StatisticsError
from phasefusion.stats._answers import half_up
from phasefusion.stats._numbers import fraction_in

#: No plan asks for more items; what needs more is out of reach.
MOST_ITEMS = 100_000_000
#: Items that the sums over binomial counts go up to; above, the normal law is as good.
MOST_EXACT = 200_000
#: A power of whole counts is a saw: it must hold at this many sizes in a row.
_KEEP = 32


@dataclass(frozen=True, slots=True)
class Design:
    """How many independent items a sample with clusters is worth.

    Parameters
    ----------
    design_effect : float, default 1.0
        Variance of the mean over that of as many independent items, > 0.
    cluster_size : float, default 1.0
        Items a cluster, on average, >= 1. It sets the degrees of freedom: clusters
        minus one.

    Raises
    ------
    StatisticsError
        If a number is out of range.

    Examples
    --------
    >>> Design.from_icc(0.1, 3)
    Design(design_effect=1.2, cluster_size=3)
    """

    design_effect: float = 1.0
    cluster_size: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.design_effect < math.inf:
            raise StatisticsError(
                Argument("design_effect"),
                f" must be > 0 and finite, it is {self.design_effect}",
            )
        if not 1.0 <= self.cluster_size < math.inf:
            raise StatisticsError(
                Argument("cluster_size"),
                f" must be >= 1 and finite, it is {self.cluster_size}",
            )

    @classmethod
    def from_icc(cls, icc: float, cluster_size: float, cv: float = 0.0) -> Design:
        """Make the design of an intra-cluster correlation.

        Parameters
        ----------
        icc : float
            Correlation of two items of one cluster, in [-1, 1].
        cluster_size : float
            Mean number of items a cluster, >= 1.
        cv : float, default 0.0
            Coefficient of variation of the number of items a cluster.

        Returns
        -------
        Design
            With the design effect ``1 + ((1 + cv**2) * cluster_size - 1) * icc`` [1]_.

        References
        ----------
        .. [1] Eldridge, Ashby, Kerry, "Sample size for cluster randomized trials:
           effect of coefficient of variation of cluster size and analysis method",
           International Journal of Epidemiology 35 (2006).
        """
        if not -1.0 <= icc <= 1.0:
            raise StatisticsError(Argument("icc"), f" must be in [-1, 1], it is {icc}")
        if not 0.0 <= cv < math.inf:
            raise StatisticsError(f"cv must be >= 0, it is {cv}")
        return cls(1.0 + ((1.0 + cv * cv) * cluster_size - 1.0) * icc, cluster_size)

    def effective(self, n: int) -> int:
        """Independent items that n items are worth, rounded down."""
        return math.floor(n / self.design_effect + 1e-9)

    def clusters(self, n: int) -> int:
        """Clusters that n items come in, rounded up."""
        return math.ceil(n / self.cluster_size - 1e-9)

    def df(self, n: int) -> int:
        """Degrees of freedom of n items: clusters minus one."""
        return math.floor(n / self.cluster_size + 1e-9) - 1


INDEPENDENT = Design()


class Plan:
    """A result of planning: one line as text, a table in a notebook."""

    __slots__ = ()
    #: Said in front of the line.
    title: ClassVar[str] = ""

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of everything it says, as text."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values; what is not defined is None."""
        found: dict[str, Any] = to_json(self)
        return found

    def __repr__(self) -> str:
        said = ", ".join(f"{label} {value}" for label, value in self.rows())
        return f"{type(self).__name__}({said})"

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{html.escape(label)}</td>"
            f'<td style="text-align: right">{html.escape(value)}</td></tr>'
            for label, value in self.rows()
        )
        return (
            f"<table><caption>{html.escape(self.title)}</caption>"
            f"<tbody>{cells}</tbody></table>"
        )


def to_json(value: Any) -> Any:
    """Turn a result into JSON values; what is not finite is None."""
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {f.name: to_json(getattr(value, f.name)) for f in fields}
    if isinstance(value, dict):
        return {name: to_json(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def points(value: float) -> str:
    """Difference of rates, in points."""
    return f"{half_up(100 * value, 2)} points"


def percent_of(value: float) -> str:
    """Rate, in percent; a dash where it was not computed."""
    if math.isnan(value):
        return "–"
    return f"{half_up(100 * value, 2)} %"


def in_percent(value: float) -> str:
    """Share that was given, in percent, for messages: as many digits as it has.

    >>> in_percent(0.07), in_percent(0.0001)
    ('7 %', '0.01 %')
    """
    return f"{100 * value:.6g} %"


def items_of(n: int, design: Design) -> str:
    """Say how many items, and in how many clusters when they come in clusters."""
    if design.cluster_size == 1.0:
        return counted(n, "item")
    return f"{counted(n, 'item')} in {counted(design.clusters(n), 'cluster')}"


def design_rows(design: Design) -> list[tuple[str, str]]:
    """Say what design was assumed, unless items are independent."""
    if design == INDEPENDENT:
        return []
    said = f"{half_up(design.design_effect, 3)}"
    if design.cluster_size != 1.0:
        said += f" with {half_up(design.cluster_size, 2)} items a cluster"
    return [("design effect", said)]


def check_sample(n: int, design: Design) -> None:
    """Refuse a sample without a standard error."""
    if isinstance(n, bool) or not isinstance(n, int) or not 2 <= n <= MOST_ITEMS:
        raise StatisticsError(
            Argument("n"), f" must be a whole number in 2..{MOST_ITEMS}, it is {n}"
        )
    if design.df(n) < 1:
        raise StatisticsError(
            f"{n} items in clusters of {design.cluster_size:g} are fewer than two "
            "clusters; there is no standard error"
        )


def check_discordance(discordance: float, difference: float) -> None:
    """Refuse a share of discordant items that the difference contradicts."""
    fraction_in(discordance, "discordance", closed=True)
    if not abs(difference) <= discordance or discordance == 0.0:
        raise StatisticsError(
            Argument("discordance"),
            f" is {in_percent(discordance)} and difference "
            f"{in_percent(difference)}: items that only one arm answers right are at "
            "least as many as the difference, and more than none",
        )


def check_target(power: float, alpha: float) -> None:
    """Refuse a power that no test needs a sample for."""
    fraction_in(power, "power")
    if power <= alpha:
        raise StatisticsError(
            Argument("power"), f" must be above alpha, they are {power:g} and {alpha:g}"
        )


def smallest_n(reaches: Callable[[int], bool], start: int, *, keep: int = _KEEP) -> int:
    """Find the smallest n from which a condition holds, near a start or far from it.

    Parameters
    ----------
    reaches : callable
        Of n; false for small n and true for large, up to a saw of whole counts.
    start : int
        A guess.
    keep : int
        The condition holds at the n found and at as many sizes after it.

    Raises
    ------
    StatisticsError
        If no n up to MOST_ITEMS does it.
    """
    least = 1  # fails, or is not looked at
    most = max(2, min(start, MOST_ITEMS))
    while not reaches(most):
        if most == MOST_ITEMS:
            raise StatisticsError(
                f"more than {MOST_ITEMS} items would be needed; ask for less"
            )
        least, most = most, min(2 * most, MOST_ITEMS)
    while most - least > 1:
        middle = (least + most) // 2
        if reaches(middle):
            most = middle
        else:
            least = middle
    return _past_the_saw(reaches, most, keep)


def _past_the_saw(reaches: Callable[[int], bool], n: int, keep: int) -> int:
    """Go back and forth until n and the sizes after it reach, and n - 1 does not."""
    while n > 2 and reaches(n - 1):
        n -= 1
    held = n
    while held - n < keep:
        held += 1
        if not reaches(held):
            n = held + 1
            while not reaches(n):
                n += 1
            held = n
    return n


def solve(found: Callable[[float], float], low: float, high: float) -> float:
    """Return where a rising function passes 0 between low and high, to 1e-10."""
    while high - low > 1e-10:
        middle = 0.5 * (low + high)
        if found(middle) < 0.0:
            low = middle
        else:
            high = middle
    return high
