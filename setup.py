"""Build the extension modules and the GPU kernels.

A missing FFmpeg leaves out ``_video`` alone. A missing nvcc leaves out the compiled
kernels, which NVRTC can make later from their packaged sources; ``PHASEFUSION_CUDA`` is
``auto`` (the default), ``on`` (no kernels: no build) or ``off``, and
``PHASEFUSION_CUDA_ARCHS`` names the devices, as in ``80;90+PTX80``.
"""

import lzma
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
CUDA = os.environ.get("PHASEFUSION_CUDA", "auto")
CUDA_ARCHS = os.environ.get("PHASEFUSION_CUDA_ARCHS", "80;90+PTX80")
# Products are rounded before they are added, as on the CPU.
NVCC_FLAGS = ["-std=c++17", "-O3", "-fmad=false"]
PACKED_KERNELS = "kernels.fatbin.xz"
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
        depends=glob("csrc/**/*.h", recursive=True) + glob("csrc/cuda/*.cu"),
        define_macros=macros,
        py_limited_api=LIMITED,
        **options,
    )


def find_nvcc():
    """Path of nvcc: that of the environment, of a toolkit, or of a Python package."""
    named = os.environ.get("NVCC")
    if named:
        return shutil.which(named)
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    places = [os.path.join(home, "bin", "nvcc") for home in homes if home]
    for key in ("purelib", "platlib"):
        places += glob(f"{sysconfig.get_paths()[key]}/nvidia/*/bin/nvcc")
    return next(filter(None, map(shutil.which, ["nvcc", *places])), None)


def nvcc_targets():
    """Options that name the devices to make code for."""
    native, _, ptx = CUDA_ARCHS.partition("+PTX")
    flags = []
    for arch in filter(None, native.split(";")):
        flags.append(f"-gencode=arch=compute_{arch},code=sm_{arch}")
    if ptx:
        flags.append(f"-gencode=arch=compute_{ptx},code=compute_{ptx}")
    return flags


class BuildExt(build_ext):
    """Give every module the project's flags; NumPy's headers get no warnings."""

    def run(self):
        """Build the modules, then the kernels."""
        super().run()
        self.package_kernels()

    def kernel_folder(self):
        """Where the package keeps its kernels."""
        base = "" if self.inplace else self.build_lib
        return os.path.join(base, "phasefusion", "cuda", "kernels")

    def kernel_files(self):
        """Return the sources of the kernels."""
        shared = ["csrc/posterior/exponential.h"]
        return sorted(glob("csrc/cuda/*.cu") + glob("csrc/cuda/*.h") + shared)

    def package_kernels(self):
        """Copy the sources of the kernels, and compile them when nvcc is there."""
        folder = self.kernel_folder()
        os.makedirs(folder, exist_ok=True)
        for path in self.kernel_files():
            self.copy_file(path, folder)
        packed = os.path.join(folder, PACKED_KERNELS)
        reason = self.compile_kernels(packed)
        if reason and CUDA == "on":
            raise SystemExit(f"phasefusion: PHASEFUSION_CUDA=on, but {reason}")
        if reason:
            if os.path.exists(packed):
                os.remove(packed)
            print(f"phasefusion: building without compiled GPU kernels: {reason}")

    def compile_kernels(self, packed):
        """Make one file for all devices; the reason why not otherwise.

        Code for one device is much like that for another, which a compressor sees only
        when it is given all of it at once.
        """
        if CUDA not in ("auto", "on", "off"):
            raise SystemExit(f"PHASEFUSION_CUDA must be auto, on or off, not {CUDA}")
        if CUDA == "off":
            return "PHASEFUSION_CUDA=off"
        nvcc = find_nvcc()
        if nvcc is None:
            return "nvcc was not found; pip install nvidia-cuda-nvcc, or set NVCC"
        newest = max(map(os.path.getmtime, [*self.kernel_files(), "setup.py"]))
        if os.path.exists(packed) and os.path.getmtime(packed) > newest:
            return ""
        os.makedirs(self.build_temp, exist_ok=True)
        fatbin = os.path.join(self.build_temp, "kernels.fatbin")
        command = [nvcc, *NVCC_FLAGS, *nvcc_targets(), "-fatbin", "-o", fatbin]
        command += ["-no-compress", "-Icsrc/posterior", "csrc/cuda/kernels.cu"]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            return f"{nvcc} failed:\n{made.stderr.strip()}"
        with open(fatbin, "rb") as file:
            image = lzma.compress(file.read(), preset=9 | lzma.PRESET_EXTREME)
        with open(packed, "wb") as file:
            file.write(image)
        return ""

    def get_outputs(self):
        """Return what is installed: the modules and the kernels."""
        folder = self.kernel_folder()
        names = [os.path.basename(path) for path in self.kernel_files()]
        made = [os.path.join(folder, name) for name in [*names, PACKED_KERNELS]]
        return super().get_outputs() + [path for path in made if os.path.exists(path)]

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
cuda = ["python/py_cuda*.c", "base/*.c", "host/*.c", "video/colour*.c"]
cuda += [f"frames/{name}.c" for name in ("filter", "passes", "patches*")]
# Few use it, and all carry it.
small = {
    "extra_compile_args": ["-g0", "-Os", "-ffunction-sections", "-fdata-sections"],
    "extra_link_args": ["-s", "-Wl,--gc-sections"],
}
modules = [
    extension("_core", core),
    extension("_frames", ["python/py_frames*.c", "base/*.c", "frames/*.c"]),
    extension("_cuda", cuda, libraries=["dl"], **small),
]
ffmpeg, reason = ffmpeg_flags()
if ffmpeg is None:
    print(f"phasefusion: building without _video (no decoding): {reason}")
else:
    video = ["python/py_video*.c", "base/*.c", "frames/*.c", "video/*.c"]
    # As system headers: what they do inside is not ours to warn of.
    folders = [flag[2:] for flag in ffmpeg if flag.startswith("-I")]
    include = [part for folder in folders for part in ("-isystem", folder)]
    rest = [flag for flag in ffmpeg if not flag.startswith("-I")]
    link = {"extra_compile_args": include, "extra_link_args": rest}
    modules.append(extension("_video", video, **link))

setup(
    ext_modules=modules,
    cmdclass={"build_ext": BuildExt},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
