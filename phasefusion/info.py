"""What this installation can do: modules, libraries, and why a part is missing."""

from __future__ import annotations

import importlib
import os
import platform
from importlib import metadata
from typing import Any

from phasefusion._install import remedy
from phasefusion.errors import BackendUnavailableError

_MODULES = {
    "_core": "grids, posteriors, statistics",
    "_frames": "resizing and normalising",
    "_video": "decoding (FFmpeg)",
}
_PACKAGES = ("numpy", "scipy", "orjson", "rich", "typer", "jinja2")
_OPTIONAL = ("torch", "transformers")


def describe() -> dict[str, dict[str, Any]]:
    """Report what is there without loading anything heavy.

    Returns
    -------
    dict
        ``{"phasefusion": ..., "modules": ..., "packages": ..., "missing": ...}``; every
        value can be written as JSON, and "missing" says how to get what is not there.
    """
    from phasefusion import __version__

    modules: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, purpose in _MODULES.items():
        try:
            importlib.import_module(f"phasefusion.{name}")
            modules[name] = purpose
        except ImportError as error:
            modules[name] = None
            missing[name] = f"{purpose}: {error}; {remedy(name)}"
    packages: dict[str, str | None] = {}
    for name in (*_PACKAGES, *_OPTIONAL):
        try:
            packages[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            packages[name] = None
            missing[name] = remedy(name)
    return {
        "phasefusion": {
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cpus": len(os.sched_getaffinity(0)),
            "ffmpeg": _ffmpeg_versions(),
        },
        "modules": modules,
        "packages": packages,
        "missing": missing,
    }


def _ffmpeg_versions() -> dict[str, str] | None:
    """Versions of the FFmpeg libraries in use; None without decoding."""
    try:
        from phasefusion.video import ffmpeg_versions

        return ffmpeg_versions()
    except (ImportError, BackendUnavailableError):
        return None
