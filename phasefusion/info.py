"""What this installation can do: modules, libraries, and why a part is missing."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from phasefusion._install import remedy
from phasefusion.errors import BackendUnavailableError

_MODULES = {
    "_core": "grids, posteriors, statistics",
    "_frames": "resizing and normalising",
    "_video": "decoding (FFmpeg)",
    "_cuda": "frames and posteriors on a GPU",
}
#: pkg-config name and oldest version of what `_video` is built with, as in setup.py.
FFMPEG = {
    "libavformat": "59.27",
    "libavcodec": "59.37",
    "libavutil": "57.28",
    "libswscale": "6.7",
}
#: Compiled kernels, as setup.py names them.
CUDA_IMAGE = "kernels.fatbin.xz"
_PKG_CONFIG_TIMEOUT_S = 20
_PACKAGES = ("numpy", "scipy", "orjson", "rich", "typer", "jinja2")
#: What works without, by the package that it takes.
_OPTIONAL = {
    "torch": "scoring Hugging Face models",
    "transformers": "scoring Hugging Face models",
    "matplotlib": "plots of report --html",
    "pillow": "pictures: contact sheets, frames on pages, JPEG for servers",
    "pyarrow": "parquet files",
    "openpyxl": "spreadsheets (.xlsx)",
    "duckdb": "SQL over records",
    "pyyaml": "claims files of audit",
    "opencv-python-headless": "anchors by optical flow",
    "prometheus-client": "metrics of monitor",
    "ray": "runs over Ray",
}
#: Packages that do as well.
_INSTEAD = {"opencv-python-headless": ("opencv-python", "opencv-contrib-python")}


def describe() -> dict[str, dict[str, Any] | None]:
    """Report what is there without loading anything heavy.

    Returns
    -------
    dict
        ``{"phasefusion": ..., "modules": ..., "cuda": ..., "packages": ..., "missing":
        ...}``; every value can be written as JSON, and "missing" says how to get what
        is not there. "cuda" is None without a usable GPU.
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
            why = str(error)
            if name == "_video" and isinstance(error, ModuleNotFoundError):
                why = f"not built; {why_no_ffmpeg()}"
            missing[name] = f"{purpose}: {why}; {remedy(name)}"
    packages: dict[str, str | None] = {}
    for name in (*_PACKAGES, *_OPTIONAL):
        packages[name] = _version(name)
        if packages[name] is None:
            lacking = f"needed for {_OPTIONAL[name]}; " if name in _OPTIONAL else ""
            missing[name] = lacking + remedy(name)
    return {
        "phasefusion": {
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cpus": len(os.sched_getaffinity(0)),
            "ffmpeg": _ffmpeg_versions(),
            "ffmpeg_origin": _ffmpeg_origin(),
            "instructions": _instructions(),
            "cuda_image": has_cuda_image(),
        },
        "modules": modules,
        "cuda": _cuda(missing),
        "packages": packages,
        "missing": missing,
    }


def _version(name: str) -> str | None:
    """Version of a package, or of one that does as well; None without."""
    for one in (name, *_INSTEAD.get(name, ())):
        try:
            return metadata.version(one)
        except metadata.PackageNotFoundError:
            continue
    return None


def build_lines() -> list[str]:
    """Say in a few lines what this installation is, for reports of faults.

    Returns
    -------
    list of str
        The first is ``phasefusion`` and the version; then Python and NumPy, FFmpeg and
        whose it is, instruction set, and whether kernels for GPUs were compiled.

    Examples
    --------
    >>> build_lines()[0] == f"phasefusion {__import__('phasefusion').__version__}"
    True
    """
    from phasefusion import __version__

    ffmpeg, origin = _ffmpeg_versions(), _ffmpeg_origin()
    decoding = "none, so videos cannot be decoded"
    if ffmpeg is not None:
        decoding = ffmpeg["release"] + ("" if origin is None else f", {origin}")
    image = "built" if has_cuda_image() else "not built, made by NVRTC where it is"
    return [
        f"phasefusion {__version__}",
        f"Python {platform.python_version()}, NumPy {metadata.version('numpy')}",
        f"FFmpeg {decoding}",
        f"instruction set {_instructions() or 'unknown: _frames is not built'}",
        f"CUDA image {image}",
    ]


def has_cuda_image() -> bool:
    """Say whether kernels for GPUs were compiled when phasefusion was built.

    Returns
    -------
    bool
        Without them NVRTC makes them at first use, where it is installed.
    """
    return (Path(__file__).parent / "cuda" / "kernels" / CUDA_IMAGE).is_file()


def _instructions() -> str | None:
    """Name the instruction set that the kernels use here; None without them."""
    try:
        from phasefusion._frames import cpu_level
    except ImportError:
        return None
    return cpu_level()


def _ffmpeg_origin() -> str | None:
    """Say whose FFmpeg is loaded: that of the wheel, or of the system.

    None without decoding, and where the kernel does not tell what is loaded.
    """
    if _ffmpeg_versions() is None:
        return None
    try:
        maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
    except OSError:
        return None
    loaded = [line.split(maxsplit=5)[-1] for line in maps.splitlines()]
    ours = [path for path in loaded if Path(path).name.startswith("libavcodec")]
    if not ours:
        return None
    home = Path(__file__).resolve().parents[1]
    return "bundled" if Path(ours[0]).is_relative_to(home) else "the system's"


def why_no_ffmpeg() -> str:
    """Repeat the check that decides whether `_video` is built, and say its outcome.

    Returns
    -------
    str
        Of today: what kept the build from finding FFmpeg may be there by now.
    """
    wanted = os.environ.get("PKG_CONFIG", "pkg-config")
    tool = shutil.which(wanted)
    if tool is None:
        return f"{wanted} is not installed, so a build cannot find FFmpeg"
    wrong = []
    for name, oldest in FFMPEG.items():
        try:
            if _succeeds(tool, "--exists", f"{name} >= {oldest}"):
                continue
            found = _succeeds(tool, "--exists", name)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{tool} cannot be run: {error}"
        older = f"a {name} before {oldest}"
        wrong.append(f"finds {older}" if found else f"does not find {name}")
    if wrong:
        return f"pkg-config {', '.join(wrong)}"
    return "FFmpeg and pkg-config are there now, so a new build will have it"


def _succeeds(*command: str) -> bool:
    done = subprocess.run(
        command, capture_output=True, check=False, timeout=_PKG_CONFIG_TIMEOUT_S
    )
    return done.returncode == 0


def _cuda(missing: dict[str, str]) -> dict[str, Any] | None:
    """Driver, devices and kernels; None, and why, when no GPU can be used."""
    from phasefusion import cuda

    reason = cuda.why()
    if reason is not None:
        missing["cuda"] = f"{reason}; everything runs on the CPU, with the same results"
        return None
    return cuda.describe()


def _ffmpeg_versions() -> dict[str, str] | None:
    """Versions of the FFmpeg libraries in use; None without decoding."""
    try:
        from phasefusion.video import ffmpeg_versions

        return ffmpeg_versions()
    except (ImportError, BackendUnavailableError):
        return None
