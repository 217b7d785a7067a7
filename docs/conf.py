"""Sphinx configuration: the pages of this folder, and a reference made of the code."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # _reference.py, beside this file

import _reference  # noqa: E402

import phasefusion  # noqa: E402

project = "phasefusion"
version = release = phasefusion.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"phasefusion {release}"
html_copy_source = False
smartquotes = False  # of `--option` it would make a dash

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autosummary_generate = False
autodoc_typehints = "none"  # docstrings say types, shapes, dtypes and units
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
default_role = "code"
nitpicky = False


def setup(app: object) -> None:
    """Write the pages that are made of the code before they are read."""
    _reference.write(HERE / "reference")
