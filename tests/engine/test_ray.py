"""Runs on a local Ray cluster: a worker is killed, the driver is, and nothing is lost.

Every run is a process of its own, so that no cluster outlives its test.
"""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pass_files import passes_of
from pixel_scorer import PixelScorer, make_questions

from phasefusion.engine import RayEngine
from phasefusion.errors import BackendUnavailableError
from phasefusion.evaluate import evaluate

OPTIONS = {"budget": 4, "dense": 10, "n_orders": 3, "progress": False}
ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).with_name("ray_driver.py")

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed, the extra is phasefusion[ray]",
)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return make_questions(tmp_path_factory.mktemp("clips"), n_clips=4, per_clip=3)


@pytest.fixture(scope="module")
def whole(questions, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    return passes_of(evaluate(questions, PixelScorer(), out=out, **OPTIONS).path)


def environment():
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), str(DRIVER.parent)])
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"} | quiet


class Driver:
    """A run in a process group of its own."""

    def __init__(self, questions, out, folder, *, engine=None, **scorer):
        self.out, self.folder = out, folder
        folder.mkdir(exist_ok=True)
        settings = OPTIONS | {
            "engine": engine or {},
            "scorer": {"folder": str(folder), **scorer},
        }
        self.process = subprocess.Popen(
            [sys.executable, DRIVER, questions, out, json.dumps(settings)],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_passes(self, n_passes, timeout_s=120):
        path = self.out / "passes.jsonl"
        deadline_s = time.monotonic() + timeout_s
        while not path.exists() or path.read_bytes().count(b"\n") < n_passes:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    def workers(self):
        return [int(path.stem) for path in self.folder.glob("*.pid")]

    def finish(self, code=0):
        out, err = self.process.communicate(timeout=180)
        assert self.process.returncode == code, (out, err)
        return out, err

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def drive(questions, tmp_path):
    made = []

    def start(**options):
        made.append(Driver(questions, tmp_path / "run", tmp_path / "pids", **options))
        return made[-1]

    yield start
    for driver in made:
        driver.end()


def is_alive(pid):
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def wait_until_gone(pids):
    deadline_s = time.monotonic() + 60
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline_s, "workers outlive their driver"
        time.sleep(0.1)


@needs_ray
def test_two_workers_one_killed_in_mid_run(drive, whole):
    driver = drive(delay_s=0.1)
    driver.wait_for_passes(len(whole) // 4)
    first, second = driver.workers()
    os.kill(first, signal.SIGKILL)
    out, err = driver.finish()
    assert f"done {len(whole)}" in out
    assert passes_of(driver.out) == whole
    assert err.count("what it had not finished is done again") == 1
    assert err.count("it died") == 1
    assert is_alive(second) is False


@needs_ray
def test_the_driver_killed_and_started_again(drive, whole):
    driver = drive(delay_s=0.05)
    driver.wait_for_passes(len(whole) // 3)
    pids = driver.workers()
    driver.process.kill()
    driver.end()
    wait_until_gone(pids)
    part = passes_of(driver.out)
    assert 0 < len(part) < len(whole)
    out, _ = drive().finish()
    assert f"done {len(whole) - len(part)}" in out
    assert passes_of(driver.out) == whole


@needs_ray
def test_interrupted_it_leaves_nothing_behind(drive, whole):
    driver = drive(delay_s=0.05)
    driver.wait_for_passes(len(whole) // 3)
    pids = driver.workers()
    driver.process.send_signal(signal.SIGINT)
    out, err = driver.finish(130)
    assert "interrupted" in out
    assert "Traceback" not in err
    wait_until_gone(pids)
    assert passes_of(driver.out).items() <= whole.items()
    drive().finish()
    assert passes_of(driver.out) == whole


@needs_ray
def test_a_question_that_kills_its_worker(drive, whole):
    driver = drive(deadly="thing 4 of 1")
    _, err = driver.finish()
    found = passes_of(driver.out)
    assert found.keys() == whole.keys()
    bad = {key for key, record in found.items() if record["invalid"]}
    assert {key[1] for key in bad} == {
        key[1]
        for key, record in whole.items()
        if record["video_id"] == "clip1" and record["n_options"] == 5
    }
    assert {key: found[key] for key in found.keys() - bad} == {
        key: whole[key] for key in whole.keys() - bad
    }
    assert "given up because workers died there" in err


@needs_ray
def test_the_command(questions, tmp_path, whole):
    def run(*words):
        command = [sys.executable, "-m", "phasefusion", "run", str(questions)]
        command += ["--budget", "4", "--dense", "10", "--n-orders", "3", "--quiet"]
        command += ["--out", "runs/a", "--engine", "ray", "--workers", "2"]
        return subprocess.run(
            [*command, *words],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
        )

    (tmp_path / "mine.py").write_text("from pixel_scorer import make\n")
    done = run("--scorer", "mine.py:make")
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert passes_of(tmp_path / "runs" / "a") == whole
    done = run("--scorer", "mine.py:nothing")
    assert done.returncode == 2
    assert done.stderr.startswith("phasefusion: error: worker ")
    assert "has no attribute 'nothing'" in done.stderr


@needs_ray
def test_the_shipped_model(tmp_path):
    pytest.importorskip("transformers")
    from phasefusion import tinyvlm
    from phasefusion.engine import ScorerSpec

    code = (
        "import sys\n"
        "from phasefusion import tinyvlm\n"
        "from phasefusion.engine import RayEngine, ScorerSpec\n"
        "from phasefusion.evaluate import evaluate\n"
        "start = {'num_cpus': 2, 'object_store_memory': 80_000_000}\n"
        "evaluate(tinyvlm.questions_path(),\n"
        "    ScorerSpec(model=str(tinyvlm.model_dir()), options={'device': 'cpu'}),\n"
        "    out=sys.argv[1], limit=8, n_orders=2, progress=False,\n"
        "    engine=RayEngine(address='local', start=start))\n"
    )
    out = tmp_path / "ray"
    command = [sys.executable, "-c", code, str(out)]
    subprocess.run(command, env=environment(), check=True, capture_output=True)
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        spec = ScorerSpec(model=str(tinyvlm.model_dir()), options={"device": "cpu"})
        here = evaluate(
            tinyvlm.questions_path(),
            spec,
            out=tmp_path / "local",
            limit=8,
            n_orders=2,
            progress=False,
        )
    finally:
        torch.set_num_threads(before)
    found, wanted = passes_of(out), passes_of(here.path)
    assert found.keys() == wanted.keys()
    for key, record in wanted.items():
        assert found[key]["logprobs"] == pytest.approx(record["logprobs"], abs=1e-5)
        assert found[key]["frame_indices"] == record["frame_indices"]


def test_without_ray_it_says_what_to_install(questions, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BackendUnavailableError, match=r"engine ray: .*pip install ray"):
        evaluate(
            questions, PixelScorer(), out=tmp_path / "r", engine=RayEngine(), **OPTIONS
        )
    assert not (tmp_path / "r").exists()
