"""A draft of any report agrees with the report and with the run it was made from."""

import json
import os
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_runs import made_run
from pass_files import text
from sample_passes import make_pass

from phasefusion.audit import audit, draft, load_claims, parse_figure
from phasefusion.importers import import_run
from phasefusion.report import report


def agrees_with_itself(run, folder):
    """Draft from the run, its report.json and its report.md; check each against all.

    A report.md holds no paths, so only claims by cell can be checked against it.
    """
    saved, markdown = report(run).save(folder / "saved")
    for source in (run, saved, markdown):
        path = folder / "claims.yaml"
        path.write_text(draft(source), encoding="utf-8")
        claims = load_claims(path)
        for given_run in (run, saved, *([markdown] if source == markdown else [])):
            made = audit(claims, {"run": given_run})
            wrong = [
                (one.claim.id, one.verdict, one.reason)
                for one in made.results
                if one.verdict != "agrees"
            ]
            assert not wrong, (source.name, given_run.name, wrong[:3])
            assert not made.unknown


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"protocol": "quick"},
        {"protocol": "stableeval", "phases": 2},
        {"phases": 2, "budget": 5, "origin": Fraction(1, 3)},
        {"n_items": 1, "n_options": 2},
        {"n_items": 3, "n_options": 9, "protocol": "stableeval"},
        {"drop": {(0, "phase", False, 0, 0), (3, "dense", True, 0, 1)}},
        {"drop": "all"},
        {"no_gold": 2, "n_options": 4, "seed": 5},
    ],
    ids=str,
)
def test_of_own_runs(tmp_path, options):
    made_run(tmp_path / "run", **options)
    agrees_with_itself(tmp_path / "run", tmp_path)


#: Names that tables, expressions and YAML each could stumble over.
NAMES = st.one_of(
    st.sampled_from(
        [
            *("a|b", "a\\", "a\\|b", "it's", 'the "b"', "`c`", "<d>", "*e*", "a/b"),
            *("16f", "3/4 = 75.0", "100 %", "x, %", "n", "-1", "1e5", "~0", "a  b"),
            *("a\tb", "a\nb", " a", "a ", "\x85", "\u2028", "\ufeffx", "#", "---"),
            *("phase 1", "label: x", "a #b", "null", "true", "日本", "😀", "é"),
        ]
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
)


@st.composite
def imported_rows(draw):
    """Passes of imported runs, with a distribution or not, in some orders."""
    arms = draw(
        st.lists(
            NAMES.filter(
                lambda name: (
                    name not in ("", "phase", "fusion", "vote", "union", "dense")
                )
            ),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    kinds = draw(st.lists(NAMES, min_size=1, max_size=3))
    property_name = draw(NAMES)
    n_items, n_orders = draw(st.integers(1, 6)), draw(st.integers(1, 2))
    orders = [[0, 1, 2], [2, 0, 1]][:n_orders]
    rows = []
    for arm in arms:
        for i in range(n_items):
            for order in orders:
                answer = draw(st.sampled_from([0, 1, 2, None]))
                rows.append(
                    make_pass(
                        i,
                        arm=arm,
                        gold=draw(st.just(0)) if i != 3 else None,
                        video_id=f"v{i % 2}",
                        type=kinds[i % len(kinds)],
                        strata={property_name: kinds[(i + 1) % len(kinds)]},
                        budget=draw(st.sampled_from([None, 0, 16])),
                        n_phases=1,
                        phase=None,
                        order=order,
                        logprobs=draw(
                            st.sampled_from([None, [-0.1, -3.0, -4.0], [-1.0, -1, -2]])
                        ),
                        answer=answer,
                        path="generate",
                        text="B, at 3.5 or 12/40 = 30",
                        invalid=None if answer is not None else "unparsed: 3 'x' of 7",
                    )
                )
    for budget in arms:
        first = next(row["budget"] for row in rows if row["arm"] == budget)
        for row in rows:
            if row["arm"] == budget:
                row["budget"] = first
    if all(row["answer"] is None for row in rows):
        rows[0] |= {"answer": 1, "invalid": None}
    return rows


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(imported_rows())
def test_of_imported_runs(tmp_path, rows):
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    (folder / "passes.jsonl").write_text(text(*rows))
    run = {"format": 1, "settings": {"protocol": "imported"}, "versions": {}}
    (folder / "run.json").write_text(json.dumps(run))
    agrees_with_itself(folder, tmp_path)


def test_of_an_imported_table(tmp_path):
    table = tmp_path / "budgets.csv"
    letters = {"textonly": "ABCDA", "16f": "AACDB", "64f": "AACDB"}
    lines = ["question_id,answer," + ",".join(letters)]
    for i, gold in enumerate("ABCDA"):
        lines.append(f"q{i},{gold}," + ",".join(one[i] for one in letters.values()))
    table.write_text("\n".join(lines) + "\n")
    run = import_run(table, out=tmp_path / "run", format="wide").path
    _, markdown = report(run).save(tmp_path / "saved")
    made = draft(markdown)
    assert "cell(run, 'Imported runs', '16f', 'right, %', number=3)" in made
    agrees_with_itself(run, tmp_path)


def test_counts_before_a_percentage_are_counts(tmp_path):
    (tmp_path / "a.md").write_text(
        "## Imported runs\n\n| run | right, % | note |\n|---|---:|---|\n"
        "| a | 345/786 = 43.9 | seen 3 times |\n"
    )
    parts = draft(tmp_path / "a.md").split("  - id: ")[1:]
    figures = [
        (
            one.split('published: "')[1].split('"')[0],
            one.split('unit: "')[1].split('"')[0],
        )
        for one in parts
    ]
    assert figures == [("345", "count"), ("786", "count"), ("43.9", "%")]


def test_decimals_of_counted_units_are_rounded():
    assert parse_figure("37.17", unit="frames").interval == (37.165, 37.175)
    assert parse_figure("37", unit="frames").interval == (37.0, 37.0)
    assert parse_figure("37.5", unit="frames", exact=True).interval == (37.5, 37.5)


@pytest.mark.skipif(
    "PHASEFUSION_SHARED" not in os.environ, reason="PHASEFUSION_SHARED is not set"
)
@pytest.mark.parametrize("case", ["02", "10", "13"])
def test_of_real_runs(tmp_path, case):
    (folder,) = (Path(os.environ["PHASEFUSION_SHARED"]) / "cases").glob(f"{case}-*")
    more = {}
    files = [*folder.glob("*.csv"), *folder.glob("*.jsonl")]
    if case == "02":
        more = {"format": "wide", "gold": folder / "gold.json"}
    run = import_run(files[0], out=tmp_path / "run", **more).path
    agrees_with_itself(run, tmp_path)
