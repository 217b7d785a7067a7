"""What messages say about getting what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

import phasefusion
from phasefusion import _install

PACKAGE = Path(phasefusion.__file__).parent


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("torch", "pip install torch transformers pillow"),
        ("transformers", "pip install torch transformers pillow"),
        ("rich", "pip install rich"),
        (
            "_frames",
            "install phasefusion again from its source folder: pip install .",
        ),
        (
            "_video",
            "install the FFmpeg development packages, 5.1 or newer (apt-get install "
            "pkg-config libavformat-dev libavcodec-dev libavutil-dev libswscale-dev), "
            "and install phasefusion again from its source folder: pip install .",
        ),
    ],
)
def test_remedies(name, text):
    assert _install.remedy(name) == text


def test_no_module_writes_advice_of_its_own():
    """And none sends anyone to an index for phasefusion itself."""
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "_install.py"]
    assert len(files) > 50
    for path in files:
        text = path.read_text(encoding="utf-8")
        for advice in ("pip install", "apt-get", "phasefusion[", "reinstall"):
            assert advice not in text, f"{path}: {advice}"
