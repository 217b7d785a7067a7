#!/bin/sh
# libraries.sh SOURCES FOLDER JOBS: FFmpeg as ffmpeg.options says, with dav1d inside, from
# the source packages in SOURCES into FOLDER/lib, FOLDER/include and FOLDER/licences.
# MESON and NINJA name those programs. Nothing is done when FOLDER has what would be built.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
sources=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
jobs=$3
meson=${MESON:-meson}
ninja=${NINJA:-ninja}

machine=$(uname -m)
missing=
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need cc "gcc libc6-dev"
need make make
need pkg-config pkg-config
need dpkg-source dpkg-dev
# Without the assembler the decoders are several times slower. PyPI's nasm is another one.
if [ "$machine" = x86_64 ] && ! nasm -v 2>/dev/null | grep -q '^NASM version'; then
    missing="$missing nasm"
fi
printf '#include <zlib.h>\n' | cc -E - >/dev/null 2>&1 || missing="$missing zlib1g-dev"
if [ -n "$missing" ]; then
    echo "wheel: these packages are missing: apt-get install$missing" >&2
    exit 1
fi
stamp=$( (cat "$0" "$here/ffmpeg.options" "$sources"/*.dsc; cc --version;
    nasm -v 2>/dev/null || true; echo "$machine") | sha256sum)
if [ "$(cat "$folder/.stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

work=$folder/work
rm -rf "$folder/lib" "$folder/include" "$folder/licences" "$folder/.stamp" "$work"
mkdir -p "$work" "$folder/licences"
run() { # run LOG command...: quiet, and the end of the log when it fails
    log=$folder/$1.log
    shift
    nice "$@" > "$log" 2>&1 || { tail -n 40 "$log" >&2; exit 1; }
}
# FFmpeg keeps its configuration as a text, so no path of this machine may be in it.
prefix=/phasefusion
flags="-O3 -ffunction-sections -fdata-sections"
ldflags="-Wl,--gc-sections -Wl,--build-id=none"
options=$(sed 's/#.*//' "$here/ffmpeg.options")
relocate() { sed -i "s#$prefix#\${pcfiledir}/../..#g" "$work/stage$prefix"/lib/pkgconfig/*.pc; }

run unpack-dav1d dpkg-source --no-check -x "$sources"/dav1d_*.dsc "$work/dav1d"
run unpack-ffmpeg dpkg-source --no-check -x "$sources"/ffmpeg_*.dsc "$work/ffmpeg"

echo "wheel: building dav1d"
cd "$work/dav1d"
CFLAGS=$flags run meson "$meson" setup build --prefix=$prefix --libdir=lib \
    --buildtype=release --default-library=static -Denable_tools=false \
    -Denable_tests=false -Denable_docs=false -Dlogging=false
run ninja "$ninja" -C build -j"$jobs"
DESTDIR=$work/stage run install-dav1d "$meson" install -C build
relocate

echo "wheel: building FFmpeg (minutes)"
cd "$work/ffmpeg"
# FFmpeg 8 has no postproc left, and refuses an option that it does not know.
grep -q postproc configure || options=$(echo "$options" | sed '/postproc/d')
# hypot alone would ask for a C library of 2022; its older name is the same function.
cat > older_names.h <<'H'
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__ASSEMBLER__)
__asm__(".symver hypot,hypot@GLIBC_2.2.5");
#endif
H
PKG_CONFIG_LIBDIR=$work/stage$prefix/lib/pkgconfig run configure ./configure \
    --prefix=$prefix --pkg-config-flags=--static \
    --extra-cflags="$flags -include older_names.h" \
    --extra-ldflags="$ldflags" $options
if ! grep -q '^#define FFMPEG_LICENSE "LGPL version 2.1 or later"$' config.h; then
    echo "wheel: the licence of this configuration is not LGPL 2.1 or later" >&2
    exit 1
fi
run make make -j"$jobs"
DESTDIR=$work/stage run install-ffmpeg make install
relocate

mv "$work/stage$prefix/lib" "$work/stage$prefix/include" "$folder"
cp "$work/ffmpeg/COPYING.LGPLv2.1" "$folder/licences/FFmpeg-LGPL-2.1.txt"
cp "$work/ffmpeg/LICENSE.md" "$folder/licences/FFmpeg-LICENSE.md"
cp "$work/dav1d/COPYING" "$folder/licences/dav1d-BSD-2-Clause.txt"
rm -rf "$work"
printf '%s' "$stamp" > "$folder/.stamp"
