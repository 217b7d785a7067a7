"""Menus and sliders in notebooks, and what stands in their place without a reader."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["choose", "has_reader"]


def has_reader() -> bool:
    """Tell whether somebody sits in front of the notebook.

    A front end lets its kernel ask for input; what executes notebooks does not
    (nbclient, ``jupyter nbconvert --execute``, papermill), and neither does a script.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))


def choose(
    show: Callable[[Any], object],
    label: str,
    choices: Mapping[str, Any] | Sequence[Any],
    *,
    slider: bool = False,
    static: int = 2,
) -> None:
    """Show one of several things, chosen from a menu.

    Where ipywidgets is not installed, or nobody is there to choose, the first few are
    shown one below the other, each under its name.

    Parameters
    ----------
    show : callable
        Called with the chosen value; what it prints, draws and displays is shown.
    label : str
        In front of the menu.
    choices : mapping of str to Any, or sequence
        Values by name, or values that are their own names.
    slider : bool, default False
        A slider in place of the menu, for values that have an order.
    static : int, default 2
        How many are shown without a menu.

    Examples
    --------
    >>> choose(lambda frames: print(frames * frames), "frames", [8, 16, 32])
    frames: 8
    64
    frames: 16
    256
    """
    named = choices if isinstance(choices, Mapping) else {str(c): c for c in choices}
    if not named:
        print(f"{label}: nothing to choose from")
        return
    try:
        widgets = importlib.import_module("ipywidgets") if has_reader() else None
    except ImportError:
        widgets = None
    if widgets is None:
        for name in list(named)[:static]:
            print(f"{label}: {name}")
            show(named[name])
        return
    kind = widgets.SelectionSlider if slider else widgets.Dropdown
    menu = kind(options=list(named.items()), description=label)
    seen = widgets.interactive_output(show, {_argument(show): menu})
    display = importlib.import_module("IPython.display").display
    display(widgets.VBox([menu, seen]))


def _argument(show: Callable[[Any], object]) -> str:
    """Name of the first argument of a function."""
    import inspect

    return next(iter(inspect.signature(show).parameters))
