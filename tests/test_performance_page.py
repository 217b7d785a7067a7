"""What the benchmarks found becomes the tables of two pages, missed goals too."""

import json
import sys
from types import SimpleNamespace

import bench_scripts
import pytest

bench = bench_scripts.load("bench")
report, table = bench._report, bench._table
Row, Goal = report.Row, report.Goal
PAGE = "before\n<!-- performance -->\nold\n<!-- end of performance -->\nafter\n"
MET = Row("h264", "H.264", 2.0, low=1.9, high=2.25, goal=Goal(1.5))
MET_SIDES = {"ours": 0.5, "peer": "decord", "theirs": 1.0}
#: What the goals were set to, before anything was measured.
SET = {
    ("decode", "h264"): 1.5,
    ("decode", "h264-2-threads"): 1.7,
    ("decode", "long"): 1.6,
    ("decode", "no-b"): 0.95,
    ("decode", "h264/plain"): 0.6,
    ("decode", "one-call/h264_1080p.mp4"): 1.9,
    ("decode", "threads"): 0,
    ("decode", "fork"): 0,
    ("pipeline", "720p/torchcodec + torch"): 1.5,
    ("pipeline", "720p/decord + Pillow"): 2.2,
    ("resize", "avx2/Pillow + NumPy"): 5,
    ("resize", "avx2/torch uint8"): 1,
    ("resize", "avx512/Pillow + NumPy"): 9,
    ("resize", "avx512/torch uint8"): 1.6,
    ("resize", "avx512/copy of source and result"): 2.2,
    ("sweep", "time"): 7,
    ("stats", "flips/NumPy one-hot"): 20,
    ("stats", "votes/NumPy on as many splits"): 40,
    ("stats", "votes/NumPy on 50 splits"): 1,
    ("stats", "bootstrap/NumPy gather"): 10,
    ("stats", "bootstrap/NumPy multinomial"): 1,
    ("stats", "fusion/SciPy softmax"): 10,
    ("stats", "auroc/NumPy bincount"): 10,
    ("stats", "auroc/scikit-learn loop"): 400,
    ("stats", "delong/NumPy outer product"): 40,
    ("records", "load"): 1.1,
    ("records", "cache"): 10,
    ("records", "report/time"): 10,
    ("records", "report/memory"): 1000,
}


def leave(root, name, rows, **given):
    """Write the file that a benchmark leaves; its exit code."""
    begun = report.Begun(name, 0.0, given.pop("busy", 0.03))
    path = root / "benchmarks" / "results" / f"{name}.json"
    return report.finish(
        rows, SimpleNamespace(json=path, rounds=3, begun=begun), **given
    )


@pytest.fixture
def root(tmp_path):
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/performance.md"):
        (tmp_path / name).write_text(PAGE)
    return tmp_path


def line_of(root, page, title):
    (found,) = [x for x in (root / page).read_text().splitlines() if title in x]
    return found


def test_both_tables_have_what_was_found(root, capsys):
    rows = [
        Row("h264", "H.264", 2.0, "x", 1.9, 2.25, Goal(1.5), **MET_SIDES),
        Row("vp9", "VP9", 1.0, "x", 1.0, 1.0, Goal(1.3), **MET_SIDES),
        Row("extra", "Not a goal", 1.0),
        Row("memory/1", "Memory", 33.25, "MiB", goal=Goal(50.0, most=True)),
        Row("far", "A | B", None, goal=Goal(3.0), lacking="no decord"),
    ]
    left = {"torchcodec": "No module"}
    assert leave(root, "decode", rows, versions=["decord 1"], left_out=left) == 1
    stats = [Row("fusion/SciPy softmax", "Fusion", 12.0, goal=Goal(10), **MET_SIDES)]
    assert leave(root, "stats", stats) == 0
    table.write(root)
    page, readme = "docs/performance.md", "README.md"
    assert line_of(root, page, "| H.264") == (
        "| H.264 | 500 ms | 1 s (decord) | 2.00 × (1.90 to 2.25) | ≥ 1.5 × | met | A |"
    )
    missed = "| 1.00 × | ≥ 1.3 × | **missed** |"
    assert line_of(root, page, "| VP9").endswith(f"{missed} A |")
    assert line_of(root, readme, "| VP9").endswith(missed)
    assert line_of(root, page, "| Memory") == (
        "| Memory | 33.2 MiB |  |  | ≤ 50 MiB | met | A |"
    )
    assert "A \\| B |  |  |  | ≥ 3 × | not measured: no decord | A |" in (
        line_of(root, page, "A \\| B")
    )
    assert "* decode: torchcodec (No module)" in (root / page).read_text()
    assert "| 3% | 3 |" in line_of(root, page, "| decode | 1970-01-01")
    text, short = (root / page).read_text(), (root / readme).read_text()
    for told in (text, short):
        assert "5 goals: 3 met, 1 missed, 1 not measured for want of" in told
        assert "7 of 9 benchmarks not run" in told
        assert told.startswith("before\n")
        assert told.endswith("after\n")
        assert "old" not in told
        assert "Not a goal" not in told
    assert "A \\| B" not in short  # README has its own few lines
    assert "| Fusion" in short
    assert "`make bench ONLY=sweep`" in line_of(root, page, "**sweep**")
    assert "sweep was not measured: make bench ONLY=sweep" in capsys.readouterr().out
    table.write(root)
    assert (root / page).read_text() == text


def test_two_machines_have_two_letters(root, monkeypatch):
    leave(root, "decode", [MET])
    other = report.machine() | {"processor": "Other", "cores": 1}
    monkeypatch.setattr(report, "machine", lambda: other)
    leave(root, "resize", [MET], busy=None)
    page = table.page(table.read(root / "benchmarks" / "results"))
    assert page.count("| met | A |") == page.count("| met | B |") == 1
    assert "\nB: Other, 1 core, " in page
    assert "not noted" in page


def test_nothing_to_show_and_no_marks(root):
    with pytest.raises(SystemExit, match="nothing to show"):
        table.write(root)
    leave(root, "decode", [MET])
    (root / "README.md").write_text("no marks")
    with pytest.raises(SystemExit, match="the marks"):
        table.write(root)


def test_a_wrong_result_counts_as_missed(root):
    rows = [Row("h264", "H.264", 9.0, goal=Goal(1.5), wrong=True)]
    rows += [Row("x", "No time", None, wrong=True)]
    assert leave(root, "decode", rows) == 1
    page = table.page(table.read(root / "benchmarks" / "results"))
    assert page.count("**wrong result**") == 2
    assert page.startswith("2 goals: 0 met, 2 missed")


def test_ratios_are_of_rounds():
    theirs, ours = [2.0, 9.0, 4.0], [1.0, 3.0, 1.0]
    row = report.ratio_row("k", "t", theirs, ours, Goal(3.5), "peer")
    assert (row.low, row.value, row.high) == (2.0, 3.0, 4.0)
    assert (row.ours, row.theirs, row.verdict) == (1.0, 4.0, "missed")
    most = Goal(0.5, most=True)
    row = report.ratio_row("k", "t", ours, theirs, most, "peer", ours_above=True)
    assert (row.ours, row.theirs, row.verdict) == (1.0, 4.0, "met")
    assert row.value == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.5, "s", "2.5 s"),
        (28.8123, "s", "28.8 s"),
        (0.0123, "s", "12.3 ms"),
        (0.9997, "s", "1 s"),
        (4.5e-7, "s", "0.45 µs"),
        (404.6, "MB", "405 MB"),
        (52264915, "", "52,264,915"),
        (0, "", "0"),
    ],
)
def test_amounts(value, unit, text):
    assert report.amount(value, unit) == text


def test_options(monkeypatch, capsys):
    monkeypatch.setattr(report, "busy_share", lambda: 0.5)
    monkeypatch.setattr(sys, "argv", ["made.py", "--rows", "b,a", "--rounds", "2"])
    options = report.parse(report.parser("What.", 7, "abc"), "abc")
    assert (options.rows, options.rounds) == (["b", "a"], 2)
    assert options.begun.busy == 0.5
    assert "other programs take 50% of this machine" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["made.py", "--rows", "d"])
    with pytest.raises(SystemExit):
        report.parse(report.parser("What.", 7, "abc"), "abc")
    assert "no such rows: d; there are a, b, c" in capsys.readouterr().err


def test_load_of_the_machine():
    share = report.busy_share(0.05)
    assert share is None or 0 <= share <= 1


def test_one_command_runs_what_is_named_and_keeps_the_rest(
    root, monkeypatch, capfd, tmp_path
):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    leave(root, "decode", [MET])
    kept = (root / "benchmarks" / "results" / "decode.json").read_text()
    left = json.dumps(json.loads(kept) | {"rounds": 5})
    (scripts / "stats.py").write_text(
        "import pathlib, sys\n"
        f"pathlib.Path(sys.argv[sys.argv.index('--json') + 1]).write_text({left!r})\n"
        "print('rounds', sys.argv[-1])\n"
        "sys.exit(1)\n"
    )
    (scripts / "decode.py").write_text("raise OSError('no disk')\n")
    monkeypatch.setattr(bench, "HERE", scripts)
    monkeypatch.setattr(bench._report, "ROOT", root)
    command = ["bench.py", "stats", "decode", "--rounds", "5", "--into", str(root)]
    monkeypatch.setattr(sys, "argv", command)
    assert bench.main() == 1
    told = capfd.readouterr().out
    assert "rounds 5" in told
    assert "FAILED with exit status 1" in told
    assert "goals missed" in told
    results = root / "benchmarks" / "results"
    assert (results / "decode.json").read_text() == kept
    assert json.loads((results / "stats.json").read_text())["rounds"] == 5
    assert "| **sweep**" in (root / "docs" / "performance.md").read_text()
    monkeypatch.setattr(sys, "argv", ["bench.py", "nothing"])
    with pytest.raises(SystemExit):
        bench.main()
    assert "no such benchmarks: nothing; there are decode" in capfd.readouterr().err


def test_every_benchmark_is_there():
    for name in table.BENCHMARKS:
        assert (bench_scripts.FOLDER / f"{name}.py").exists()


def test_pages_have_what_the_files_say_and_goals_are_as_they_were_set():
    root = bench_scripts.FOLDER.parent
    found = table.read(bench_scripts.FOLDER / "results")
    for path, made in (
        ("docs/performance.md", table.page(found)),
        ("README.md", table.excerpt(found)),
    ):
        text = (root / path).read_text()
        _, _, rest = text.partition("<!-- performance -->\n")
        now, _, _ = rest.partition("\n<!-- end of performance -->")
        assert now == made.strip(), f"python benchmarks/_table.py makes {path} anew"
    goals = {
        (name, row.key): row.goal.at_least
        for name, one in found.items()
        for row in one.goals
    }
    for key, value in SET.items():
        assert key[0] not in found or goals[key] == value, key
