"""Claims against runs: every function over passes agrees with the passes themselves."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from compare_runs import answer, write_run
from made_runs import made_run

from phasefusion import report, stats
from phasefusion.audit import audit, draft, load_claims
from phasefusion.audit.evidence import clusters
from phasefusion.audit.printed import read_tables
from phasefusion.audit.sources import Source
from phasefusion.compare import compare
from phasefusion.errors import AuditError
from phasefusion.planning import pilot
from phasefusion.records import read_passes
from phasefusion.report.items import contributions
from phasefusion.report.sections import sections
from phasefusion.report.table import build

DROP = {(3, "phase", False, 1, 2), (5, "dense", True, 0, 0)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "a"
    made_run(path, n_items=40, drop=DROP, no_gold=8)
    return path


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Write a run on the same items, other answers, questions in another order."""
    path = tmp_path_factory.mktemp("run") / "b"
    made_run(path, n_items=40, seed=5)
    lines = (path / "passes.jsonl").read_text().splitlines()
    same_gold = {f"q{i}": row["gold"] for i, row in enumerate(map(json.loads, lines))}
    assert len(same_gold) == len(lines)
    (path / "passes.jsonl").write_text("".join(f"{one}\n" for one in lines[::-1]))
    return path


@pytest.fixture(scope="module")
def columns(run):
    settings = json.loads((run / "run.json").read_text())["settings"]
    table = build(read_passes(run), settings)
    return table, contributions(table)


def computed(claims_file, expressions, **runs):
    """Values of expressions, or why there is none."""
    lines = [f"runs: [{', '.join(runs)}]", "claims:"]
    for i, text in enumerate(expressions):
        given = json.dumps(text)
        lines.append(f"- {{id: c{i}, text: t, published: '0', compute: {given}}}")
    made = audit(claims_file("\n".join(lines)), runs)
    return [
        one.computed if one.computed is not None else one.reason for one in made.results
    ]


def test_numbers_of_the_report(claims_file, run):
    numbers = report(run).to_dict()
    found = computed(
        claims_file,
        [
            "report(main, 'accuracy/fusion/consensus/value')",
            "report(main, '/consistency/fpc/pairwise/value')",
            "report(main, 'half_step/fusion_against/single/p')",
            "report(main, 'comparisons/0/consensus/only_arm')",
            "report(main, 'accuracy/phase 0/first_order/low')",
            "cell(main, 'Accuracy', 'fusion', 'consensus')",
            "cell(main, 'Accuracy', 'fusion', 'all orders, %', 3)",
            "cell(main, 'Fusion against the other arms', 'dense', 'p', nth=2)",
        ],
        main=run,
    )
    assert found[:5] == [
        numbers["accuracy"]["fusion"]["consensus"]["value"],
        numbers["consistency"]["fpc"]["pairwise"]["value"],
        numbers["half_step"]["fusion_against"]["single"]["p"],
        numbers["comparisons"][0]["consensus"]["only_arm"],
        numbers["accuracy"]["phase 0"]["first_order"]["low"],
    ]
    rate = numbers["accuracy"]["fusion"]
    assert found[5] == pytest.approx(100 * rate["consensus"]["value"], abs=0.0501)
    assert found[6] == pytest.approx(100 * rate["order_averaged"]["high"], abs=0.0501)
    against = next(e for e in numbers["comparisons"] if e["against"] == "dense")
    p = against["first_order"]["p_clustered"]  # the questions share videos
    assert found[7] == pytest.approx(p, abs=0.00501)


def test_statistics_over_passes(claims_file, run, columns):
    table, items = columns
    found = computed(
        claims_file,
        [
            "100 * mean(correct(main, 'fusion'))",
            "mean(correct(main, 'fusion', 'orders'))",
            "mean(correct(main, 'single', 'first'))",
            "mean(changed(main, 'single'))",
            "mean(changed(main, 'fusion', 'orders'))",
            "tost(correct(main, 'fusion') - correct(main, 'dense'), "
            "clusters(main, 'video'), margin=0.3).pvalue",
            "clustered_mean(correct(main, 'fusion') - correct(main, 'dense'), "
            "clusters(main), confidence_level=0.9).low",
            "mcnemar(gained(changed(main, 'single'), changed(main, 'fusion')), "
            "gained(changed(main, 'fusion'), changed(main, 'single'))).pvalue",
            "flip_rates(phase_answers(main), policy='available-macro').pairwise",
            "flip_rates(answers(main, 'phase 0'), policy='available-macro').any",
            "auroc(order_flips(main, 'single'), margins(main, 'single')).value",
            "present(correct(main, 'fusion'))",
            "mean(keep(order_flips(main), option_counts(main) == 3))",
            "mean(keep(changed(main, 'single'), clusters(main, 'type') == 'when'))",
            "total(one_of(option_counts(main), [2, 3]))",
            "present(gold(main))",
        ],
        main=run,
    )
    fusion, dense = items.consensus["fusion"], items.consensus["dense"]
    videos = [info.video_id for info in table.items]
    single, moved = items.change["single"], items.change["fusion"]
    is_three = table.n_options == 3
    is_when = np.array([info.type == "when" for info in table.items])
    both = ~np.isnan(single) & ~np.isnan(moved)
    b = int(((single == 1) & (moved == 0))[both].sum())
    c = int(((single == 0) & (moved == 1))[both].sum())
    wanted = [
        100 * np.nanmean(fusion),
        np.nanmean(items.accuracy["fusion"]),
        np.nanmean(items.first_order["single"]),
        np.nanmean(single),
        np.nanmean(items.change_passes["fusion"]),
        stats.tost(fusion - dense, videos, margin=0.3).pvalue,
        stats.clustered_mean(fusion - dense, videos, confidence_level=0.9).low,
        stats.mcnemar(b, c).pvalue,
        stats.flip_rates(table.phase_consensus(), policy="available-macro").pairwise,
        stats.flip_rates(
            table.arms["phase 0", False].answer, policy="available-macro"
        ).any,
        stats.auroc(
            items.order_flips["single"].any, table.arms["single", False].margin[:, 0]
        ).value,
        int((~np.isnan(fusion)).sum()),
        np.nanmean(items.order_flips["phases"].any[is_three]),
        np.nanmean(single[is_when]),
        int((table.n_options <= 3).sum()),
        40,
    ]
    assert found == pytest.approx(wanted)
    assert not any(map(math.isnan, wanted))
    assert np.isnan(fusion).any()


def test_two_runs_are_paired_by_question(claims_file, run, other):
    found = computed(
        claims_file,
        [
            "mean(correct(b, 'fusion') - correct(a, 'fusion'))",
            "gained(correct(a, 'fusion'), correct(b, 'fusion'))",
            "mean(correct(b, 'fusion') == correct(a, 'fusion'))",
        ],
        a=run,
        b=other,
    )
    right = {}
    for path in (run, other):
        settings = json.loads((path / "run.json").read_text())["settings"]
        table = build(read_passes(path), settings)
        column = contributions(table).consensus["fusion"]
        ids = [info.question_id for info in table.items]
        right[path] = dict(zip(ids, column.tolist(), strict=True))
    first, second = right[run], right[other]
    assert list(first) != list(second)
    pairs = [(first[q], second[q]) for q in first]
    there = [(x, y) for x, y in pairs if not math.isnan(x) and not math.isnan(y)]
    assert found[0] == pytest.approx(np.mean([y - x for x, y in there]))
    assert found[1] == sum(x == 1 and y == 0 for x, y in there)
    assert found[2] == pytest.approx(np.mean([x == y for x, y in there]))


def test_clusters_are_within_benchmarks_and_what_is_unknown_is_not_shared(tmp_path):
    rows = [
        answer("q0", 0, benchmark="x", video_id="v", type="when"),
        answer("q1", 0, benchmark="x", video_id="v", type="when"),
        answer("q0", 0, benchmark="y", video_id="v", type="when"),
        answer("q1", 0, benchmark="y", video_id=None, type=None),
        answer("q2", 0, benchmark="y", video_id=None, type=None),
        answer("v", 0, benchmark="x", video_id="", type=None),
    ]
    path = write_run(tmp_path / "a", rows)
    source = Source("a", path)

    def sizes(by):
        return sorted(Counter(clusters(source, by).values.tolist()).values())

    assert sizes("video") == [1, 1, 1, 1, 2]
    assert sizes("question") == [1] * 6
    assert sizes("type") == [1, 1, 1, 3]
    assert sizes("benchmark") == [3, 3]
    # every part of the package clusters so
    pairs = compare(path, path, cluster="video")
    assert len(pairs.outcome.clustered.cluster_sums) == 5
    assert pilot(path, cluster="video", n_resamples=1).n_clusters == 5


def test_runs_of_other_items_are_not_paired_in_silence(claims_file, run, tmp_path):
    made_run(tmp_path / "few", n_items=30)
    found = computed(
        claims_file,
        [
            "mean(correct(a, 'fusion') - correct(b, 'fusion'))",
            "mean(shared(correct(a, 'single'), gold(b)) - correct(b, 'single'))",
            "present(shared(gold(a), gold(b)))",
        ],
        a=run,
        b=tmp_path / "few",
    )
    assert "different items" in found[0]
    assert "shared()" in found[0]
    assert isinstance(found[1], float)
    assert found[2] == 30


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mean(correct(main, 'fushion'))", "did you mean 'fusion'"),
        ("mean(correct(main, 'fusion', 'all'))", "known are"),
        ("report(main, 'acuracy')", "did you mean 'accuracy'"),
        ("report(main, 'accuracy')", "not a single value"),
        ("report(main, 'comparisons/99')", "a list of"),
        ("report(main, 'protocol/x')", "nothing below protocol"),
        ("cell(main, 'Acuracy', 'x', 'y')", "did you mean 'Accuracy'"),
        ("cell(main, 'Accuracy', 'fusio', 'n')", "did you mean 'fusion'"),
        ("cell(main, 'Accuracy', 'fusion', 'm')", "no column 'm'"),
        ("cell(main, 'Accuracy', 'fusion', 'n', 2)", "prints"),
        ("clusters(main, 'xyz')", "known are"),
        ("correct(main, 'fusion')", "this is a column"),
        ("phase_answers(main, true)[0]", "only lists have items"),
        ("tost(clusters(main), margin=1).pvalue", "must be numbers"),
        ("mean(clusters(main))", "holds texts"),
        ("mean(answers(main, 'fusion'))", "this is a table"),
        ("clusters(main) + 1", "no arithmetic"),
        ("correct(main, 'fusion') ** 2", "added, subtracted"),
        ("mean(keep(gold(main), gold(main)))", "must be a comparison"),
        ("1 < gold(main) < 3", "two at a time"),
        ("gold(main) == 'x'", "texts is compared"),
        ("cluster_bootstrap(gold(main), n_resamples=10 ** 7).mean", "at most 20000"),
        ("csv(main, 'x')", "no rows"),
    ],
)
def test_reasons(claims_file, run, text, says):
    (found,) = computed(claims_file, [text], main=run)
    assert says in str(found)


def test_damaged_runs_are_a_reason(claims_file, run, tmp_path):
    (tmp_path / "passes.jsonl").write_text("{}\n")
    (found,) = computed(
        claims_file, ["mean(correct(main, 'fusion'))"], main=tmp_path / "passes.jsonl"
    )
    assert "line 1" in found
    (found,) = computed(claims_file, ["report(main, 'accuracy')"], main=tmp_path)
    assert "no run here" in found or "line 1" in found
    (tmp_path / "passes.jsonl").write_text("")
    (found,) = computed(claims_file, ["gold(main)"], main=tmp_path / "passes.jsonl")
    assert "no passes" in found


def test_paths_in_the_file_are_relative_to_it(run, tmp_path):
    path = tmp_path / "claims.yaml"
    path.write_text(
        f"runs: {{main: {run.name}, lost: nowhere}}\nclaims:\n"
        '- {id: a, text: t, holds: "present(gold(main)) == 40"}\n'
        '- {id: b, text: t, holds: "present(gold(lost)) == 40"}\n'
    )
    (tmp_path / run.name).symlink_to(run)
    made = audit(path)
    assert [one.verdict for one in made.results] == ["agrees", "cannot be computed"]
    assert "nowhere does not exist" in made.results[1].reason


# ------------------------------------------------------------------ drafts


def test_a_draft_of_a_report_agrees_with_its_run(run, tmp_path, claims_file):
    saved, markdown = report(run).save(tmp_path / "saved")
    for source in (run, saved, markdown):
        path = claims_file(draft(source))
        claims = load_claims(path)
        made = audit(claims, {"run": run})
        assert made.counts == {"agrees": len(claims.claims)}
        assert len(claims.claims) > 100
        assert audit(claims, {"run": source}).counts == made.counts


def test_a_draft_differs_from_another_run(run, other, tmp_path, claims_file):
    saved, _ = report(run).save(tmp_path / "saved")
    made = audit(claims_file(draft(saved)), {"run": other})
    assert made.counts["differs"] > 50


def test_a_draft_names_paths_and_digits(run):
    text = draft(run, run="mine", title="Mine")
    value = 100 * report(run).numbers["accuracy"]["fusion"]["consensus"]["value"]
    assert "runs: [mine]" in text
    assert 'title: "Mine"' in text
    assert (
        '  - id: "accuracy.fusion.consensus.value"\n'
        '    text: "accuracy fusion consensus value"\n'
        f'    published: "{value:.1f}"\n'
        '    unit: "%"\n'
        "    compute: \"100 * report(mine, 'accuracy/fusion/consensus/value')\"\n"
    ) in text


def test_what_is_no_report(tmp_path):
    for name, content in (("a.json", "{}"), ("a.md", "# x\n"), ("b.json", "{")):
        (tmp_path / name).write_text(content)
        with pytest.raises(AuditError):
            draft(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        draft(tmp_path / "none")


def test_tables_are_read_as_they_were_printed(run):
    made = report(run)
    printed = sections(made.numbers)
    found = read_tables(made.to_markdown())
    assert [(t.title, t.columns, t.rows) for t in found] == [
        (t.title, t.columns, t.rows) for t in printed
    ]
