"""Files that are replaced as a whole: a crash or a full disk leaves the old one."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from phasefusion._paths import path_of

#: What is named there is somebody's open file, which must stay the file it is.
_OPEN_FILES = ("/dev/", "/proc/")


def replace_file(path: str | Path, data: bytes) -> None:
    """Write a file so that whatever happens leaves the old one or the new one.

    A link stays a link, and the file that is replaced hands its mode on. A pipe or a
    device is written to, and so is a file whose folder takes no others.

    Raises
    ------
    OSError
        If it cannot be written; what was made on the way is gone.
    """
    path = path_of("path", path, "the file to write")
    is_open_file = str(path.absolute()).startswith(_OPEN_FILES)
    if is_open_file or (path.exists() and not path.is_file()):
        path.write_bytes(data)
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        file = open(temporary, "xb")
    except PermissionError as error:
        if not target.exists():
            error.filename = str(path)  # nobody has asked for the other
            raise
        target.write_bytes(data)
        return
    try:
        with file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_text(path: str | Path, text: str) -> None:
    """Write a file of text, in UTF-8, as `replace_file` does.

    Bytes of file names that are no UTF-8 become escapes.

    Raises
    ------
    OSError
        As `replace_file`.
    """
    replace_file(path, text.encode(errors="backslashreplace"))
