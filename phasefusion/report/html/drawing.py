"""Figures as SVG, drawn by matplotlib; they follow the colours of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phasefusion._install import remedy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours that those with any colour vision tell apart (Okabe and Ito, 2008), each
#: with a line style and a marker of its own, so that grey prints do too.
STYLES = (
    ("#0072b2", "-", "o"),
    ("#d55e00", "--", "s"),
    ("#009e73", "-.", "^"),
    ("#cc79a7", ":", "D"),
    ("#56b4e9", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("#e69f00", (0, (1, 1)), "P"),
)
#: Stands for the colour of text until the page gives it.
INK = "#010203"
_SETTINGS = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


def drawn(title: str, note: str, draw: Callable[[Axes], None]) -> dict[str, str]:
    """Draw one figure of a page.

    Parameters
    ----------
    title : str
        Unlike that of any other figure of the page, in its letters.
    note : str
    draw : callable
        Draws on axes.

    Returns
    -------
    dict
        ``title``, ``note`` and ``svg``; the SVG is empty, and the note says so, where
        matplotlib is not installed.
    """
    try:
        svg = _svg(title, draw)
    except ImportError:
        svg, note = "", f"Not drawn: {remedy('matplotlib')}, then make the page again."
    return {"title": title, "note": note, "svg": svg}


def _svg(title: str, draw: Callable[[Axes], None]) -> str:
    """Draw one figure; equal input gives equal bytes."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: Any = {**_SETTINGS, "svg.hashsalt": title}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(5.2, 3.2), layout="constrained")
        figure.patch.set_alpha(0)
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        draw(axes)
        out = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", metadata=nothing)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "var(--ink)")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    # ids that several figures in one page would share
    prefix = re.sub(r"[^a-z]+", "-", title.lower())
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
