"""`phasefusion monitor`."""

import json

import pytest

from phasefusion.simulate import Effects, corpus


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Twelve good runs and one whose phases disagree."""
    folder = tmp_path_factory.mktemp("runs")
    found = []
    for i in range(13):
        effects = Effects(phase_sd=3.0) if i == 12 else Effects()
        made = corpus(effects, n_videos=20, orders="cyclic", seed=i)
        found += made.write(folder / str(i), frames=False)
    return found


def test_add_and_show(call, runs, tmp_path):
    history = tmp_path / "quality.sqlite"
    for i, run in enumerate(runs[:12]):
        at = f"2026-11-{i + 1:02d}"
        code, out, err = call("monitor", "add", history, run, "--at", at)
        assert (code, err) == (0, "")
        assert out.startswith(f"added: the batch of {at}T00:00:00Z; {i + 1} in ")
    code, out, _ = call("monitor", "show", history)
    assert code == 0
    assert out.startswith("phasefusion monitor: in control")
    code, out, _ = call(
        "monitor", "add", history, runs[12], "--at", "2026-11-13", "--json"
    )
    assert (code, json.loads(out)["n_batches"]) == (0, 13)
    file = tmp_path / "phasefusion.prom"
    code, out, err = call(
        "monitor", "show", history, "--save-prometheus", file, "--json"
    )
    assert code == 1
    found = json.loads(out)
    assert found["state"] == "alarm"
    alerts = {one["chart"]: one for one in found["measures"][1]["alerts"]}
    assert alerts["p chart"]["since"] == "2026-11-13T00:00:00Z"
    assert {one["found"] for one in alerts.values()} == {"2026-11-13T00:00:00Z"}
    assert err == f"phasefusion: written: {file}\n"
    assert 'alarm{chart="p_chart",history="quality",measure="fpc"' in file.read_text()
    page = tmp_path / "quality.html"
    code, out, err = call("monitor", "show", history, "--save-html", page)
    assert (code, err) == (1, f"phasefusion: written: {page}\n")
    assert "FPC fell since 2026-11-1" in page.read_text()
    code, out, _ = call("monitor", "show", history, "--markdown")
    assert (code, out[:28]) == (1, "# phasefusion monitor: alarm")


def test_bad_input(call, runs, tmp_path):
    history = tmp_path / "quality.sqlite"
    code, _, err = call("monitor", "show", history)
    assert code == 2
    assert "there is no history" in err
    code, _, err = call("monitor", "add", history, runs[0], "--at", "noon")
    assert code == 2
    assert "'noon' is no time" in err
    history.write_text("not a history")
    code, _, err = call("monitor", "add", history, runs[0], "--at", "2026-11-30")
    assert code == 2
    assert err.startswith(f"phasefusion: error: {history}: is no history")


def test_how_another_way_of_measuring_is_allowed_is_said_once(call, runs, tmp_path):
    history = tmp_path / "quality.sqlite"
    assert call("monitor", "add", history, runs[0], "--at", "2026-11-01")[0] == 0
    (other,) = corpus(n_videos=4, orders="identity", seed=0).write(
        tmp_path / "other", frames=False
    )
    code, _, err = call("monitor", "add", history, other, "--at", "2026-11-02")
    assert code == 2
    assert err.endswith('If it is meant to be so: allow="orders" (--allow orders)\n')
