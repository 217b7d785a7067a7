"""Menus where there are widgets and a reader, else the first choices."""

from __future__ import annotations

import sys
import types
from typing import ClassVar

import pytest

from phasefusion.report import explore


class Widget:
    made: ClassVar[list] = []

    def __init__(self, *children, **settings):
        self.children, self.settings = children, settings
        Widget.made.append(self)


@pytest.fixture
def widgets(monkeypatch):
    """Make a module that stands for ipywidgets, and a reader in front of it."""
    Widget.made = []
    module = types.ModuleType("ipywidgets")
    module.Dropdown = type("Dropdown", (Widget,), {})
    module.SelectionSlider = type("SelectionSlider", (Widget,), {})
    module.VBox = type("VBox", (Widget,), {})
    module.interactive_output = lambda show, controls: ("seen", show, controls)
    python = types.ModuleType("IPython")
    kernel = types.SimpleNamespace(_allow_stdin=True)
    python.get_ipython = lambda: types.SimpleNamespace(kernel=kernel)
    python.display = types.ModuleType("IPython.display")
    displayed = []
    python.display.display = displayed.append
    monkeypatch.setitem(sys.modules, "ipywidgets", module)
    monkeypatch.setitem(sys.modules, "IPython", python)
    monkeypatch.setitem(sys.modules, "IPython.display", python.display)
    return types.SimpleNamespace(displayed=displayed, kernel=kernel)


def square(frames):
    print(frames * frames)


def test_a_reader_gets_a_menu(widgets, capsys):
    assert explore.has_reader()
    explore.choose(square, "frames", {"few": 2, "many": 9})
    menu, box = Widget.made
    assert type(menu).__name__ == "Dropdown"
    assert menu.settings == {
        "options": [("few", 2), ("many", 9)],
        "description": "frames",
    }
    assert widgets.displayed == [box]
    assert box.children == ([menu, ("seen", square, {"frames": menu})],)
    assert capsys.readouterr().out == ""
    explore.choose(square, "frames", [2, 9], slider=True)
    assert type(Widget.made[2]).__name__ == "SelectionSlider"


def test_nobody_gets_the_first_choices(widgets, capsys):
    widgets.kernel._allow_stdin = False
    assert not explore.has_reader()
    explore.choose(square, "frames", [2, 3, 4], static=2)
    two = "frames: 2\n4\nframes: 3\n9\n"
    assert capsys.readouterr().out == two
    explore.choose(square, "frames", [2, 3, 4])  # which is how many there are
    assert capsys.readouterr().out == two
    assert not Widget.made


def test_without_ipywidgets_a_reader_gets_the_first_choices(
    widgets, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    explore.choose(square, "frames", {"few": 2, "many": 9}, static=1)
    assert capsys.readouterr().out == "frames: few\n4\n"


def test_nothing_to_choose_is_said(capsys):
    explore.choose(square, "frames", [])
    assert capsys.readouterr().out == "frames: nothing to choose from\n"


def test_real_widgets_call_what_is_shown(monkeypatch):
    pytest.importorskip("ipywidgets")
    display = pytest.importorskip("IPython.display")
    shown, boxes = [], []
    monkeypatch.setattr(explore, "has_reader", lambda: True)
    monkeypatch.setattr(display, "display", boxes.append)

    def show(frames):
        shown.append(frames)

    explore.choose(show, "frames", [2, 9])
    (box,) = boxes
    box.children[0].value = 9
    assert shown == [2, 9]
