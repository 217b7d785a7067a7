"""Which file a video was: every pass says it, and a run is of one file a video."""

import hashlib
import io
import itertools
import json
import os
import shutil

import pytest
from pixel_scorer import PixelScorer, make_clip, make_questions
from pixel_scorer import short_run as run
from protocol_truth import RuleScorer

from phasefusion import _runner, _video_digest
from phasefusion._known_videos import known_videos
from phasefusion._video_digest import BLOCK_BYTES, N_BLOCKS, WHOLE_BYTES, video_digest
from phasefusion.datasets import load_questions
from phasefusion.errors import NoAnswerWarning, RecordError
from phasefusion.records import check, iter_passes, pass_schema, read_passes


def sha16(size, *parts):
    return hashlib.sha256(b"%d:" % size + b"".join(parts)).hexdigest()[:16]


@pytest.fixture
def questions(tmp_path):
    return make_questions(tmp_path, n_clips=2, per_clip=3)


def replace_video(questions, name="clip0.mp4", n_frames=31, seed=7):
    """Put another video in the place of one; return the path of the old one."""
    video = questions.parent / name
    kept = shutil.copy2(video, questions.parent / f"old-{name}")
    video.unlink()
    make_clip(video, n_frames, seed=seed)
    return kept


# ------------------------------------------------------------------- the digest


@pytest.mark.parametrize("size", [0, 1, 7919, WHOLE_BYTES - 1, WHOLE_BYTES])
def test_all_of_a_small_file_counts(tmp_path, size):
    data = os.urandom(size)
    path = tmp_path / "a"
    path.write_bytes(data)
    assert video_digest(path) == sha16(size, data) == video_digest(data)
    assert video_digest(io.BytesIO(data)) == video_digest(memoryview(data))
    if size:
        other = data[:-1] + bytes([data[-1] ^ 1])
        assert video_digest(other) != video_digest(data)


@pytest.mark.parametrize("size", [WHOLE_BYTES + 1, WHOLE_BYTES + 7919, 5_000_011])
def test_blocks_of_a_large_file_count(tmp_path, size):
    data = bytearray(os.urandom(size))
    path = tmp_path / "a"
    path.write_bytes(data)
    starts = [i * (size - BLOCK_BYTES) // (N_BLOCKS - 1) for i in range(N_BLOCKS)]
    blocks = [data[start : start + BLOCK_BYTES] for start in starts]
    assert (starts[0], starts[-1] + BLOCK_BYTES) == (0, size)
    assert all(b - a >= BLOCK_BYTES for a, b in itertools.pairwise(starts))
    was = video_digest(path)
    assert was == sha16(size, *blocks) == video_digest(data)
    for place in (0, size - 1, starts[7] + 5):
        data[place] ^= 1
        assert video_digest(data) != was
        data[place] ^= 1
    gap = starts[3] + BLOCK_BYTES
    if gap < starts[4]:  # as the documentation says: no proof that files are equal
        data[gap] ^= 1
        assert video_digest(data) == was


def test_a_file_is_read_once_and_again_when_it_changes(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"one")
    os.utime(path, (1, 1))
    monkeypatch.setattr(_video_digest, "is_fresh", lambda stat, now_ns: False)
    read = []
    real = os.pread
    monkeypatch.setattr(
        os, "pread", lambda *args: read.append(args) or real(*args), raising=True
    )
    was = video_digest(path)
    assert video_digest(path) == was
    assert len(read) == 1
    path.write_bytes(b"two")
    os.utime(path, (1, 1))  # the time of change of the inode is not set back
    assert video_digest(path) != was
    assert len(read) == 2


def test_what_cannot_be_read_has_none(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("absent", "pipe", "", "a\0b"):
        path = str(tmp_path / name)
        assert _video_digest.digest_of_file(path) is None
    with pytest.raises(OSError, match="no regular file"):
        video_digest(tmp_path / "pipe")


# ------------------------------------------------------------------- in a run


def test_every_pass_has_the_digest_of_its_file(questions, tmp_path):
    made = run(questions, tmp_path / "run")
    rows = list(iter_passes(made.path))
    assert rows
    for row in rows:
        data = (tmp_path / f"{row['video_id']}.mp4").read_bytes()
        assert row["video_digest"] == sha16(len(data), data)
    assert check(made.path).counts == {}


def test_a_video_is_digested_once_a_process(questions, tmp_path, monkeypatch):
    read = []
    real = _video_digest._digest
    monkeypatch.setattr(
        _video_digest, "_digest", lambda *args: read.append(args) or real(*args)
    )
    monkeypatch.setattr(_video_digest, "is_fresh", lambda stat, now_ns: False)
    run(questions, tmp_path / "run")
    assert len(read) == 2


def test_a_missing_video_has_none_and_may_come_back(questions, tmp_path):
    items = list(load_questions(questions))
    video = tmp_path / "clip0.mp4"
    video.rename(tmp_path / "away")
    with pytest.warns(NoAnswerWarning):
        run(items, tmp_path / "run", limit=2)
    lost = list(iter_passes(tmp_path / "run"))
    assert {row["video_digest"] for row in lost} == {None}
    (tmp_path / "away").rename(video)
    run(items, tmp_path / "run")
    found = [p["video_digest"] for p in iter_passes(tmp_path / "run")][len(lost) :]
    assert None not in found


def test_a_video_that_comes_back_before_it_is_decoded_has_one(
    questions, tmp_path, monkeypatch
):
    """As on a network drive, where the first look at a file may fail."""
    real, seen = _runner.digest_of_file, set()

    def late(path):
        is_first = path not in seen
        seen.add(path)
        return None if is_first else real(path)

    monkeypatch.setattr(_runner, "digest_of_file", late)
    made = run(questions, tmp_path / "run", limit=2)
    digests = {row["video_digest"] for row in iter_passes(made.path)}
    assert digests == {video_digest(tmp_path / "clip0.mp4")}


def test_a_swapped_video_is_refused_before_anything_is_scored(questions, tmp_path):
    out = tmp_path / "run"
    run(questions, out, limit=2)
    before = (out / "passes.jsonl").read_bytes()
    old = replace_video(questions)
    scorer = PixelScorer()
    with pytest.raises(RecordError) as caught:
        run(questions, out, scorer)
    text = str(caught.value)
    ids = "2 questions: questions/0-0, questions/0-1"
    for part in (str(out), "clip0.mp4", ids, "put the old file"):
        assert part in text
    assert video_digest(old) in text
    assert video_digest(tmp_path / "clip0.mp4") in text
    assert scorer.calls == []
    assert (out / "passes.jsonl").read_bytes() == before
    old.replace(tmp_path / "clip0.mp4")
    made = run(questions, out)
    whole = run(questions, tmp_path / "whole")
    assert made.n_passes == whole.n_passes


def test_the_refusal_lists_the_first_few(tmp_path):
    recorded, items = {}, []
    for v in range(7):
        video = tmp_path / f"{v}.mp4"
        video.write_bytes(b"x")
        for q in range(4):
            recorded["b", f"{v}-{q}"] = "0" * 16
            items.append(_Asked("b", f"{v}-{q}", str(video)))
    with pytest.raises(RecordError) as caught:
        known_videos("out", recorded, items)
    lines = str(caught.value).split("\n  ")
    assert lines[0].startswith("out: 7 videos are not the files")
    assert lines[1].endswith("4 questions: b/0-0, b/0-1, b/0-2, ...")
    assert len(lines) == 7
    assert lines[-1] == "..."


class _Asked:
    def __init__(self, benchmark, question_id, video):
        self.benchmark, self.question_id = benchmark, question_id
        self.video = video


def test_a_video_swapped_while_the_run_goes_on_is_refused(questions, tmp_path):
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[2] |= {"start": 1.0, "end": 3.0}  # decoded for itself, after the others
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))

    class Swapping(PixelScorer):
        def score(self, *args, **named):
            if not self.calls:
                replace_video(questions)
            return super().score(*args, **named)

    with pytest.raises(RecordError, match=r"clip0\.mp4: is another file"):
        run(questions, tmp_path / "run", Swapping())
    digests = {
        (p["video_id"], p["video_digest"]) for p in iter_passes(tmp_path / "run")
    }
    assert len(digests) == 1
    assert not {p["question_id"] for p in iter_passes(tmp_path / "run")} & {"0-2"}


def test_a_video_swapped_while_it_is_read_is_refused(questions, tmp_path, monkeypatch):
    real = _runner.read_span

    def swapping(item, *args):
        found = real(item, *args)
        replace_video(questions)
        return found

    monkeypatch.setattr(_runner, "read_span", swapping)
    scorer = PixelScorer()
    with pytest.raises(RecordError, match=r"clip0\.mp4: is another file"):
        run(questions, tmp_path / "run", scorer)
    assert scorer.calls == []


def test_runs_without_digests_go_on(questions, tmp_path):
    out = tmp_path / "run"
    run(questions, out, limit=2)
    rows = list(iter_passes(out))
    for row in rows:
        del row["video_digest"]
    (out / "passes.jsonl").write_text("".join(json.dumps(p) + "\n" for p in rows[:-3]))
    made = run(questions, out)
    assert made.n_passes == run(questions, tmp_path / "whole").n_passes
    assert "video" not in check(out).counts


def test_a_question_is_of_one_file_whoever_made_the_passes(questions, tmp_path):
    from phasefusion.records import RunWriter

    run(questions, tmp_path / "run", limit=1)
    rows = list(iter_passes(tmp_path / "run"))
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    with RunWriter(tmp_path / "other", described) as writer:
        writer.append(rows[:1])
        with pytest.raises(RecordError, match="another file now"):
            writer.append([rows[1] | {"video_digest": "0" * 16}])
        writer.append([rows[1] | {"video_digest": None}])


# ------------------------------------------------------------------- odd files


def test_reads_may_be_short(tmp_path, monkeypatch):
    data, real = os.urandom(7919), os.pread
    for name in "ab":
        (tmp_path / name).write_bytes(data)
    monkeypatch.setattr(os, "pread", lambda fd, n, at: real(fd, min(n, 1000), at))
    assert video_digest(tmp_path / "a") == video_digest(data)
    monkeypatch.setattr(os, "pread", lambda fd, n, at: real(fd, max(0, 1000 - at), at))
    with pytest.raises(OSError, match="ends at byte 1000: it became shorter"):
        video_digest(tmp_path / "b")


def test_questions_of_two_benchmarks_may_have_one_id(tmp_path):
    video = tmp_path / "a.mp4"
    video.write_bytes(b"x")
    items = [_Asked(benchmark, "q", str(video)) for benchmark in ("one", "two")]
    recorded = {("one", "q"): "0" * 16, ("two", "q"): video_digest(video)}
    with pytest.raises(RecordError, match=f"digest {'0' * 16} -> .* 1 question: one/q"):
        known_videos("out", recorded, items)


def test_a_video_that_does_not_decode_has_one_too(questions, tmp_path):
    video = tmp_path / "clip0.mp4"
    video.write_bytes(b"no video")
    with pytest.warns(NoAnswerWarning):
        run(questions, tmp_path / "run", limit=2)
    lost = {row["video_digest"] for row in iter_passes(tmp_path / "run")}
    assert lost == {video_digest(video)}
    video.unlink()
    make_clip(video, 31, seed=7)
    with pytest.raises(RecordError, match="is not the file that passes"):
        run(questions, tmp_path / "run")


def test_a_prompt_without_a_video_keeps_the_file_of_its_question(questions, tmp_path):
    """The first pass of a question is one without a video here."""

    def even(view, question, order):
        return [-2.0] * len(order)

    scorer = RuleScorer(even, {"blind": even})
    run(questions, tmp_path / "run", scorer, protocol="blind")
    rows = list(iter_passes(tmp_path / "run"))
    assert rows[0]["budget"] == 0
    described = pass_schema()["properties"]["video_digest"]["description"]
    assert "also where no frames of it were shown" in described
    assert None not in {row["video_digest"] for row in rows}
    infos = read_passes(tmp_path / "run").items
    assert [one.video_digest for one in infos] == [
        _video_digest.digest_of_file(questions.parent / f"clip{i // 3}.mp4")
        for i in range(6)
    ]
