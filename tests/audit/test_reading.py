"""Claims files are read within limits, and errors say where and what to do."""

import json

import pytest

from phasefusion.audit import load_claims
from phasefusion.audit.reading import MAX_DEPTH, MAX_NODES, nearest, parse, read
from phasefusion.errors import AuditError, PhaseFusionError


def plain(node):
    if isinstance(node.value, list):
        return [plain(one) for one in node.value]
    if isinstance(node.value, dict):
        return {key: plain(one) for key, one in node.value.items()}
    return node.value


def test_scalars_stay_as_they_are_written():
    text = "a: 2.10\nb: '1,132'\nc: [~, null, yes, 1e9]\nd: {e: ''}\n"
    found = plain(parse(text, "f"))
    assert found["a"] == "2.10"
    assert found == {
        "a": "2.10",
        "b": "1,132",
        "c": [None, None, "yes", "1e9"],
        "d": {"e": ""},
    }


def test_lines_are_known():
    root = parse("a:\n  - x\n  - y: [1,\n      2]\n", "f")
    inside = root.value["a"].value[1].value["y"].value
    assert [one.place.line for one in inside] == [3, 4]


def test_json_is_read_too(tmp_path):
    value = {"a": ["\U0001f600 é", "2.10", "tab\there"], "b": {"c": None, "d": "x/y"}}
    path = tmp_path / "f.json"
    path.write_text(json.dumps(value, indent="\t"))
    assert plain(read(path)) == value
    path.write_text(json.dumps(value, ensure_ascii=False))
    assert plain(read(path)) == value


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: &x [1]\nb: *x\n", 1, "anchors and aliases"),
        ("a: 1\nb: *x\n", 2, "anchors and aliases"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "tags such as"),
        ("a: !!int 3\n", 1, "tags such as"),
        ("a: 1\nb: 2\na: 3\n", 3, "there twice, first on line 1"),
        ("[a]: 1\n", 1, "a key must be a text"),
        ("a: 1\n--- \nb: 2\n", 2, "one YAML document"),
        ("a: b: c\n", 1, "not YAML"),
        ("a: [1, 2\nb: 3\n", 2, "not YAML"),
        ("a: 1\nb: \x01\n", 2, "is not allowed"),
        ('a: "\\ud83d"\n', 1, "surrogate"),
        ("a: " + "[" * 40 + "]" * 40, 1, f"more than {MAX_DEPTH} deep"),
        ("a:\n- " + "x" * 30_000, 2, "longer than"),
        ("a: [" + "1," * (MAX_NODES + 1) + "]", 1, f"more than {MAX_NODES} values"),
    ],
)
def test_what_is_not_read(text, line, says):
    with pytest.raises(AuditError, match=rf"^f, line {line}: .*{says}"):
        parse(text, "f")


def test_bombs_are_refused_before_they_grow():
    bomb = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for name, last in zip("bcdefghi", "abcdefgh", strict=True):
        bomb.append(f"{name}: &{name} [{','.join(['*' + last] * 9)}]")
    with pytest.raises(AuditError, match="anchors and aliases"):
        parse("\n".join(bomb), "f")
    with pytest.raises(AuditError, match="deep"):
        parse("[" * 200_000, "f")
    with pytest.raises(AuditError, match="deep"):
        parse("".join(" " * i + "a:\n" for i in range(500)), "f")


def test_empty_large_and_binary_files(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_text("# nothing\n")
    with pytest.raises(AuditError, match="is empty"):
        read(path)
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(AuditError, match=r"line 2: is not UTF-8"):
        read(path)
    path.write_bytes(b"a: 1\n" * 2_000_000)
    with pytest.raises(AuditError, match="larger than 2 MB"):
        read(path)
    with pytest.raises(FileNotFoundError):
        load_claims(tmp_path / "none.yaml")


def test_byte_order_mark_and_crlf(tmp_path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert plain(read(path)) == {"a": "1", "b": "2"}


def test_without_yaml_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(PhaseFusionError, match="pip install pyyaml"):
        parse("a: 1", "f")


def test_nearest():
    assert nearest("toleranc", ["tolerance", "unit"]) == "did you mean 'tolerance'?"
    assert nearest("q", []) == "there is none"
