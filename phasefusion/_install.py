"""How to get what is missing, in one place; the texts end sentences of messages.

Only the dependencies themselves are named, which every index has; phasefusion itself
is installed again from its source folder, because only a build finds new libraries.
"""

from __future__ import annotations

REBUILD = "install phasefusion again from its source folder: pip install ."
FFMPEG = (
    "install the FFmpeg development packages, 5.1 or newer (apt-get install pkg-config "
    "libavformat-dev libavcodec-dev libavutil-dev libswscale-dev), and " + REBUILD
)
HUGGING_FACE = "pip install torch transformers pillow"


def remedy(name: str) -> str:
    """Say how to get a module or a package.

    Examples
    --------
    >>> remedy("torch")
    'pip install torch transformers pillow'
    >>> remedy("scipy")
    'pip install scipy'
    >>> remedy("_core")
    'install phasefusion again from its source folder: pip install .'
    """
    if name in ("torch", "transformers"):
        return HUGGING_FACE
    if name == "_video":
        return FFMPEG
    return REBUILD if name.startswith("_") else f"pip install {name}"
