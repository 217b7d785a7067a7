#!/bin/sh
# Make sure that what pip cannot bring is there: a compiler, the FFmpeg development
# packages and command line tool, and Python's venv and headers. Installs with apt when
# root or password-less sudo allows it, otherwise stops with the exact command.
set -eu
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setup: phasefusion needs Python 3.11 or newer, and '$python' is not." >&2
    echo "setup: install one and name it: make PYTHON=python3.12 setup" >&2
    exit 1
fi

missing=
need() { missing="$missing $*"; }

command -v cc >/dev/null 2>&1 || need gcc libc6-dev
command -v ffmpeg >/dev/null 2>&1 || need ffmpeg
if ! command -v pkg-config >/dev/null 2>&1; then
    need pkg-config libavformat-dev libavcodec-dev libavutil-dev libswscale-dev
else
    for library in libavformat libavcodec libavutil libswscale; do
        pkg-config --exists "$library" || need "$library-dev"
    done
fi
version=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
"$python" -c 'import ensurepip' 2>/dev/null || need "$version-venv"
"$python" - <<'P' 2>/dev/null || need "$version-dev"
import os, sysconfig, sys
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
P

[ -n "$missing" ] || exit 0
command="apt-get install -y --no-install-recommends$missing"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: these Debian packages, or what your system calls them, are missing:$missing" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root=sudo
else
    echo "setup: system packages are missing. Run this, then make again:" >&2
    echo "    sudo apt-get update && sudo $command" >&2
    exit 1
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
if ! { $as_root apt-get -qq update && $as_root $command >/dev/null; }; then
    echo "setup: apt failed. Run this to see why, then make again:" >&2
    echo "    ${as_root:+sudo }apt-get update && ${as_root:+sudo }$command" >&2
    exit 1
fi
