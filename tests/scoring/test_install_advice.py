"""What messages say about getting what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

import phasefusion
from phasefusion import _install
from phasefusion.errors import BackendUnavailableError
from phasefusion.scoring.checkpoint import loading

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


@pytest.mark.parametrize(
    ("library", "package"),
    [
        ("Torchvision", "torchvision"),
        ("PIL", "pillow"),
        ("SentencePiece", "sentencepiece"),
    ],
)
def test_a_library_that_a_processor_lacks_is_named(library, package):
    said = (
        f"\nQwen2VLVideoProcessor requires the {library} library but it was not found "
        "in your environment. Check out the instructions on the\ninstallation page: ..."
    )
    with pytest.raises(BackendUnavailableError) as caught, loading("m", "processor"):
        raise ImportError(said)
    assert str(caught.value) == (
        f"m: the processor needs {library}, which is not installed; "
        f"{_install.remedy(package)}"
    )
