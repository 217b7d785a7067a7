"""Questions about one video are a cluster, and those about two are not."""

import json
import os

import pytest

from phasefusion import datasets
from phasefusion.datasets import load_questions

READERS = [
    lambda path: load_questions(path),
    lambda path: list(datasets.load("auto", path)),
]


def question_file(folder, *videos, **more):
    for video in videos:
        path = folder / video
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    rows = [
        {"question_id": f"q{k}", "video": video, "question": "What?"}
        | {"options": ["x", "y"], **more}
        for k, video in enumerate(videos)
    ]
    path = folder / "some.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ids(reader, path):
    return [item.video_id for item in reader(path)]


@pytest.mark.parametrize("reader", READERS)
def test_files_of_one_name_are_videos_of_their_own(reader, tmp_path):
    videos = ["a/clip.mp4", "b/clip.mp4", "clip.mp4", "clip.avi", "b/clip.mp4"]
    path = question_file(tmp_path, *videos, "other.mp4")
    assert ids(reader, path) == [*videos, "other"]


@pytest.mark.parametrize("reader", READERS)
def test_two_names_of_one_file_are_one_video(reader, tmp_path):
    path = question_file(tmp_path, "a/clip.mp4", "b/clip.mp4")
    (tmp_path / "b/clip.mp4").unlink()
    os.link(tmp_path / "a/clip.mp4", tmp_path / "b/clip.mp4")
    assert ids(reader, path) == ["a/clip.mp4", "b/clip.mp4"]
    (tmp_path / "b/clip.mp4").unlink()
    (tmp_path / "b/clip.mp4").symlink_to(tmp_path / "a/clip.mp4")
    assert ids(reader, path) == ["clip", "clip"]


@pytest.mark.parametrize("reader", READERS)
def test_ids_that_are_given_stay(reader, tmp_path):
    path = question_file(tmp_path, "a/clip.mp4", "b/clip.mp4", video_id="film")
    assert ids(reader, path) == ["film", "film"]


@pytest.mark.parametrize("reader", READERS)
def test_letters_are_taken_off_once(reader, tmp_path):
    options = ["A. A. x", "B. B. y"]
    path = question_file(tmp_path, "a/clip.mp4", "b/clip.mp4", options=options)
    for item in reader(path):
        assert item.options == ("A. x", "B. y")
        assert item.video_id.endswith("/clip.mp4")
