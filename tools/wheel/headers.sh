#!/bin/sh
# headers.sh FOLDER ...: does the decoder compile against these releases of FFmpeg?
# A FOLDER is an unpacked source of FFmpeg, which need not be configured or built. Warnings
# are errors, so that what a release deprecates is seen. PYTHON is the interpreter, with
# NumPy, whose headers are taken.
set -eu
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
mkdir "$own/libavutil"
# what configure would write
printf '#define AV_HAVE_BIGENDIAN 0\n#define AV_HAVE_FAST_UNALIGNED 1\n' \
    > "$own/libavutil/avconfig.h"
includes=$("$python" -c 'import numpy, sysconfig
print("-isystem", numpy.get_include(), "-isystem", sysconfig.get_path("include"))')

failed=0
for folder; do
    release=$(cat "$folder/RELEASE" 2>/dev/null || echo "$folder")
    wrong=0
    # which libavcodec is it really?
    seen=$(printf '#include <libavcodec/version.h>\nLIBAVCODEC_VERSION_MAJOR\n' |
        cc -E -P -isystem "$own" -isystem "$folder" - | tail -n 1)
    for file in csrc/video/*.c csrc/python/py_video*.c; do
        # shellcheck disable=SC2086 # several words
        cc -std=c11 -fsyntax-only -Wall -Wextra -Werror -Icsrc -isystem "$own" \
            -isystem "$folder" $includes -DPy_LIMITED_API=0x030B0000 \
            -DNPY_TARGET_VERSION=NPY_2_0_API_VERSION "$file" || wrong=1
    done
    if [ $wrong = 0 ]; then
        echo "FFmpeg $release (libavcodec $seen): compiles"
    else
        echo "FFmpeg $release (libavcodec $seen): DOES NOT COMPILE"
        failed=1
    fi
done
exit $failed
