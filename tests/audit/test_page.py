"""The page about audits says what the code says, and its example runs."""

import json
import re
from pathlib import Path

import pytest
from audit_page import PAGE, filled
from made_runs import made_run

from phasefusion.audit import audit, load_claims
from phasefusion.audit.claims import _CLAIM, _FIGURE, _READING, _TOP


def test_the_tables_are_up_to_date():
    text = PAGE.read_text(encoding="utf-8")
    assert text == filled(text), "run: python tests/audit_page.py"


@pytest.fixture
def example(tmp_path):
    text = PAGE.read_text(encoding="utf-8")
    (found,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "table.yaml").write_text(found)
    made_run(tmp_path / "a", n_items=40)
    scores = {"results": {"made_task": {"exact_match,none": 0.7}}}
    (tmp_path / "results.json").write_text(json.dumps(scores))
    return tmp_path


def test_the_example_runs(example):
    runs = {"main": example / "a", "scores": example / "results.json"}
    made = audit(example / "table.yaml", runs)
    assert [(one.claim.id, one.verdict) for one in made.results] == [
        (one.id, one.expect) for one in load_claims(example / "table.yaml").claims
    ]
    assert len(made.results) == 9
    without = audit(example / "table.yaml")
    assert without.counts == {"agrees": 2, "cannot be computed": 7}
    assert not without.surprises
    assert len(without.unknown) == 7


def test_every_key_is_on_the_page():
    text = Path(PAGE).read_text(encoding="utf-8")
    for key in {*_TOP, *_CLAIM, *_READING, *_FIGURE}:
        assert re.search(rf"`[^`\n]*\b{key}\b[^`\n]*`", text), key
