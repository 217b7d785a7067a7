"""Slow, obvious twins of what csrc/video does with the text of subtitles."""

from __future__ import annotations

import re
from html.entities import name2codepoint

NAMES = name2codepoint | {"apos": ord("'")}
LINE_TAGS = "br p div li tr hr".split()
WORD_TAGS = (
    "b i u s em strong font span a c v lang ruby rt rp tt small big sub sup strike del "
    "ins center code q cite img body html head sync ul ol"
).split()
BLANKS = " \t\u00a0\u202f\u205f\u2060\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200C))
)

ENTITY = r"&(?P<entity>#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z0-9]{1,8});"
NEW_LINE = r"(?P<new_line>\r\n?)"
COMMENT = r"<!--.*?-->"
KNOWN_TAG = rf"</?(?P<tag>{'|'.join(LINE_TAGS + WORD_TAGS)})(?=[ \t\r\n./>])[^<>]*>"
ANY_TAG = r"</?(?P<tag>[A-Za-z][A-Za-z0-9]{0,7})[^<>]*>|</?[0-9:.]*>"
OVERRIDE = r"\{(?:\\|[A-Za-z]:)[^}]*\}"
ESCAPE = r"\\(?P<escape>[Nnh{}])"
BLOCK = r"(?P<block>\{[^}]*\})"
PATTERNS = {
    "text": [COMMENT, OVERRIDE, KNOWN_TAG, ENTITY, NEW_LINE],
    "webvtt": [COMMENT, OVERRIDE, ANY_TAG, ENTITY, NEW_LINE],
    "ass": [COMMENT, BLOCK, KNOWN_TAG, ESCAPE, ENTITY, NEW_LINE],
}


def entity(name: str) -> str | None:
    if not name.startswith("#"):
        return chr(NAMES[name]) if name in NAMES else None
    base = 16 if name[1] in "xX" else 10
    number = int(name[2:] if base == 16 else name[1:], base)
    if 0x80 <= number < 0xA0:
        text = bytes([number]).decode("cp1252", "ignore")
        return text or "\x01"  # a control character
    if number == 0 or number > 0x10FFFF or 0xD800 <= number < 0xE000:
        return "\ufffd"
    return "\x01" if number == 13 else chr(number)


def strip_markup(payload: str, kind: str) -> str:
    """One regular expression, one replacement after the other."""
    pattern = re.compile("|".join(PATTERNS[kind]), re.DOTALL | re.IGNORECASE | re.ASCII)
    draws = False
    parts = []
    at = 0
    for match in pattern.finditer(payload):
        parts.append("" if draws else payload[at : match.start()])
        at = match.end()
        found = match.groupdict()
        stands_for: str | None = ""
        if found["new_line"]:
            stands_for = "\n"
        elif found["entity"]:
            stands_for = entity(found["entity"])
            stands_for = match.group() if stands_for is None else stands_for
        elif found.get("escape"):
            signs = {"N": "\n", "n": " ", "h": "\u00a0", "{": "{", "}": "}"}
            stands_for = signs.get(found["escape"])
            stands_for = match.group() if stands_for is None else stands_for
        elif (found.get("tag") or "").lower() in LINE_TAGS:
            stands_for = "\n"
        elif found.get("block"):
            for scale in re.findall(r"\\p([0-9]+)", found["block"]):
                draws = len(scale) > 1 or scale != "0"
        parts.append("" if draws else stands_for)
    parts.append("" if draws else payload[at:])
    text = re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", "".join(parts))
    lines = [line.strip(BLANKS) for line in text.split("\n")]
    return "\n".join(line for line in lines if line)
