"""The sample alert rules are about what the monitor exports."""

import re
from pathlib import Path

import yaml
from batch_series import batch, item_values

from phasefusion.monitor._watching import watch

RULES = Path(__file__).parents[2] / "docs" / "phasefusion-alerts.yml"


def test_rules_name_what_is_exported(tmp_path):
    batches = []
    for day in range(1, 13):
        values, videos = item_values(n_videos=20, seed=day)
        batches.append(
            batch(f"2026-11-{day:02d}T00:00:00Z", values, videos, items=str(day))
        )
    made = watch(
        batches, "quality.sqlite", baseline=10, every=370.0, width=None, h=None
    )
    text = made.write_prometheus(tmp_path / "x.prom").read_text()
    exported = set(re.findall(r"^# TYPE (\w+) gauge$", text, re.MULTILINE))
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    used = {
        name for rule in rules for name in re.findall(r"phasefusion_\w+", rule["expr"])
    }
    assert len(rules) == 3
    assert used <= exported
    for rule in rules:
        for label in re.findall(r"labels\.(\w+)", rule["annotations"]["summary"]):
            assert f'{label}="' in text
    page = (RULES.parent / "gate.md").read_text()
    assert all(name.removeprefix("phasefusion_monitor") in page for name in exported)
