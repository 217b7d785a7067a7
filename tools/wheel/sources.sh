#!/bin/sh
# sources.sh FOLDER: Debian's source packages of FFmpeg and dav1d into FOLDER.
#
# They come by apt from where this machine has its packages: a copy of that list gets its
# source entries switched on, so nothing of the system changes and no root is needed. apt
# checks the archive's signature, and each file against it. A folder that already holds
# one .dsc of each is left as it is; put other versions there to build those.
set -eu
folder=$1
mkdir -p "$folder"
cd "$folder"

have() { test "$(ls "$1"_*.dsc 2>/dev/null | wc -l)" = 1; }
if have ffmpeg && have dav1d; then
    exit 0
fi
for tool in apt-get dpkg-source; do
    command -v $tool >/dev/null || {
        echo "wheel: $tool was not found; put the source packages of FFmpeg and dav1d" \
            "(.dsc and what it names) into $folder, and install dpkg-dev" >&2
        exit 1
    }
done

echo "wheel: fetching the sources of FFmpeg and dav1d"
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
: > "$apt/sources.list"
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    test -f "$list" && sed -n 's/^deb[ \t]/deb-src /p' "$list" >> "$apt/sources.list"
done
for list in /etc/apt/sources.list.d/*.sources; do
    test -f "$list" || continue
    sed 's/^Types:.*/Types: deb-src/' "$list" > "$apt/parts/${list##*/}"
done
set -- -qq -o Dir::Etc::SourceList="$apt/sources.list" \
    -o Dir::Etc::SourceParts="$apt/parts" -o Dir::State::Lists="$apt/lists" \
    -o Dir::Cache="$apt/cache" -o APT::Sandbox::User="$(id -un)"
apt-get "$@" update
apt-get "$@" source --download-only ffmpeg dav1d
have ffmpeg && have dav1d
