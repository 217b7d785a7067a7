"""Build the three extension modules; a missing FFmpeg leaves out ``_video`` alone."""

import os
import shutil
import subprocess
import sysconfig
from glob import glob

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FFMPEG = {  # pkg-config name: oldest version, that of FFmpeg 5.1
    "libavformat": "59.27",
    "libavcodec": "59.37",
    "libavutil": "57.28",
    "libswscale": "6.7",
}
SANITIZE = os.environ.get("PHASEFUSION_SANITIZE") == "1"
WERROR = os.environ.get("PHASEFUSION_WERROR") == "1"
# A free-threaded Python has no limited API yet, so it gets a wheel of its own.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")

macros = [("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION")]
if LIMITED:
    macros.append(("Py_LIMITED_API", "0x030B0000"))
# Floating-point flags are never read here, so a choice between two computed numbers
# need not be a branch; that changes no result and lets such loops vectorise.
cflags = (
    "-std=c11 -O3 -fvisibility=hidden -ffp-contract=off -fno-trapping-math "
    "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow "
    "-Wstrict-prototypes -Wmissing-prototypes -Wvla -Wcast-qual"
).split()
ldflags = ["-pthread", "-lm"]
if SANITIZE:
    cflags += ["-O1", "-g", "-UNDEBUG", "-fsanitize=address,undefined"]
    ldflags += ["-fsanitize=address,undefined"]
if WERROR:
    cflags.append("-Werror")


def ffmpeg_flags():
    """Compiler and linker flags of FFmpeg, or the reason why there are none."""
    tool = shutil.which(os.environ.get("PKG_CONFIG", "pkg-config"))
    if tool is None:
        return None, "pkg-config was not found; install pkg-config"
    wanted = [f"{name} >= {version}" for name, version in FFMPEG.items()]
    found = subprocess.run(
        [tool, "--print-errors", "--cflags", "--libs", *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode != 0:
        return None, (
            "FFmpeg 5.1 or newer was not found; install libavformat-dev "
            "libavcodec-dev libavutil-dev libswscale-dev\n" + found.stderr.strip()
        )
    return found.stdout.split(), ""


def extension(name, folders, **options):
    """One module: its binding files and every C file of its stages."""
    sources = [path for folder in folders for path in sorted(glob(f"csrc/{folder}"))]
    return Extension(
        f"phasefusion.{name}",
        sources,
        depends=glob("csrc/**/*.h", recursive=True),
        define_macros=macros,
        py_limited_api=LIMITED,
        **options,
    )


class BuildExt(build_ext):
    """Give every module the project's flags; NumPy's headers get no warnings."""

    def build_extensions(self):
        """Build what can be built here."""
        for ext in self.extensions:
            ext.include_dirs += ["csrc"]
            system = ["-isystem", numpy.get_include()]
            ext.extra_compile_args = cflags + system + ext.extra_compile_args
            ext.extra_link_args = ldflags + ext.extra_link_args
        super().build_extensions()


core = ["python/py_core.c", "python/py_grid.c", "python/py_posterior.c"]
core += ["python/py_stats.c", "python/py_resample.c"]
core += ["base/*.c", "grid/*.c", "posterior/*.c", "stats/*.c"]
cuda = ["python/py_cuda.c", "base/*.c", "host/*.c", "video/colour*.c"]
cuda += [f"frames/{name}.c" for name in ("filter", "passes", "patches*")]
modules = [
    extension("_core", core),
    extension("_frames", ["python/py_frames.c", "base/*.c", "frames/*.c"]),
    extension("_cuda", cuda, libraries=["dl"]),
]
ffmpeg, reason = ffmpeg_flags()
if ffmpeg is None:
    print(f"phasefusion: building without _video (no decoding): {reason}")
else:
    video = ["python/py_video*.c", "base/*.c", "frames/*.c", "video/*.c"]
    include = [flag for flag in ffmpeg if flag.startswith("-I")]
    rest = [flag for flag in ffmpeg if not flag.startswith("-I")]
    link = {"extra_compile_args": include, "extra_link_args": rest}
    modules.append(extension("_video", video, **link))

setup(
    ext_modules=modules,
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
