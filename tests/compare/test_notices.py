"""What a comparison warns of."""

from compare_runs import answer, write_run

from phasefusion.compare import compare
from phasefusion.stats import clustered_mean


def same_twice(tmp_path, a, b):
    passes = [[answer(f"q{i}", i % 4, **extra) for i in range(8)] for extra in (a, b)]
    return [
        write_run(tmp_path / name, rows)
        for name, rows in zip("ab", passes, strict=True)
    ]


def test_identical_answers_on_recorded_frames(tmp_path):
    runs = same_twice(tmp_path, {"frame_indices": [1]}, {"frame_indices": [1]})
    made = compare(*runs)
    assert made.notices[0] == (
        "identical answers on all 8 items - same evidence? of 8 items with recorded "
        "frames 8 have the same on both sides, and every text is the same; do not "
        "count them as two independent runs"
    )
    assert made.outcome.mcnemar.pvalue == 1.0
    assert made.items == ()


def test_identical_answers_on_other_frames(tmp_path):
    runs = same_twice(
        tmp_path, {"frame_indices": [1]}, {"frame_indices": [2], "text": "so"}
    )
    assert (
        "of 8 items with recorded frames 0 have the same" in compare(*runs).notices[0]
    )
    assert "every text" not in compare(*runs).notices[0]


def test_identical_answers_without_frames(tmp_path):
    notice = compare(*same_twice(tmp_path, {}, {})).notices[0]
    assert notice.startswith(
        "identical answers on all 8 items; whether both saw the same frames is not "
        "recorded in A and B, and every text is the same"
    )
    assert "evidence" not in notice
    runs = same_twice(tmp_path / "one", {"frame_indices": [1]}, {})
    assert "is not recorded in B, and every" in compare(*runs).notices[0]


def test_one_different_answer_is_enough(tmp_path):
    a = write_run(tmp_path / "a", [answer(f"q{i}", 0) for i in range(8)])
    b = write_run(tmp_path / "b", [answer(f"q{i}", int(i == 5)) for i in range(8)])
    assert not any("identical" in notice for notice in compare(a, b).notices)


def test_a_run_with_itself(tmp_path):
    run = write_run(tmp_path, [answer("q", 0)])
    assert compare(run, run).notices == ("both sides are the same arm of the same run",)


def test_videos_that_are_known_and_not_used(tmp_path):
    runs = [
        write_run(
            tmp_path / name,
            [
                answer(f"q{i}", (i // 3 + s * (i % 5)) % 4, video_id=f"v{i // 3}")
                for i in range(30)
            ],
        )
        for s, name in enumerate("ab")
    ]
    made = compare(*runs, cluster="question")
    (notice,) = [n for n in made.notices if "videos" in n]
    assert "the 30 questions are about 10 videos" in notice
    clustered = compare(*runs)
    assert clustered.cluster == "video"
    assert "clustered by video (10 clusters)" in " ".join(str(clustered).split())
    mean = clustered.outcome.difference
    assert f"[{100 * mean.low:.2f}, {100 * mean.high:.2f}] points" in notice
    assert not any("videos" in n for n in clustered.notices)
    assert mean.n_clusters == 10
    assert made.outcome.difference.n_clusters == 30
    values = [((i // 3) % 4 == 0) - ((i // 3 + i % 5) % 4 == 0) for i in range(30)]
    assert mean == clustered_mean(values, [i // 3 for i in range(30)], limits=(-1, 1))


def test_one_question_a_video_is_no_cluster(tmp_path):
    runs = [
        write_run(
            tmp_path / name,
            [answer(f"q{i}", i * s % 4, video_id=f"v{i}") for i in range(6)],
        )
        for s, name in enumerate("ab")
    ]
    made = compare(*runs)
    assert not any("videos" in notice for notice in made.notices)
    assert made.cluster == "question"
    assert "clustered by question (6 clusters)" in " ".join(str(made).split())


def test_sides_that_are_right_on_the_same_items(tmp_path):
    # wrong in other ways, right on the same questions: nothing varies
    def runs(n):
        return [
            write_run(
                tmp_path / f"{name}{n}",
                [answer(f"q{i}", 0 if i % 2 else 1 + s) for i in range(n)],
            )
            for s, name in enumerate("ab")
        ]

    made = compare(*runs(2), margin=0.025)
    assert made.outcome.tost.verdict == "not certifiable"
    assert made.outcome.difference.high > 0.5
    (notice,) = [n for n in made.notices if "no variance" in n]
    assert "2 clusters without a difference" in notice
    assert "119 like these would show equivalence within 2.50 points" in notice
    text = " ".join(str(made).split())
    assert "not certifiable: 90 % interval [-77.64, 77.64]" in text
    assert made.to_dict()["outcome"]["tost"]["equivalent"] is False
    short, enough = (compare(*runs(n), margin=0.025) for n in (118, 119))
    assert not short.outcome.tost.equivalent
    assert enough.outcome.tost.equivalent
    assert not any("would show" in notice for notice in enough.notices)


def test_other_question_files(tmp_path):
    rows = [answer("q1", 0), answer("q2", 1)]
    a = write_run(tmp_path / "a", rows, hashes={"quiz": {"q1": "aa", "q2": "bb"}})
    b = write_run(tmp_path / "b", rows, hashes={"quiz": {"q1": "aa", "q2": "cc"}})
    (notice,) = [n for n in compare(a, b).notices if "question files" in n]
    assert notice.startswith("1 question is not the same")


def test_other_video_files_are_said(tmp_path):
    one, other = ({"video_digest": digit * 16} for digit in "0f")
    a, b = same_twice(tmp_path, one, other)
    said = "the video of 8 questions is another file in A than in B"
    assert sum(said in notice for notice in compare(a, b).notices) == 1
    a, b = (
        write_run(
            tmp_path / name,
            [answer("q", 0), answer("q", 0, arm="dense", video_digest=digit * 16)],
        )
        for name, digit in (("first", "0"), ("second", "f"))  # of a later pass
    )
    assert sum("1 question is another" in notice for notice in compare(a, b).notices)
    a, b = same_twice(tmp_path / "same", one, one)
    assert not any("file" in notice for notice in compare(a, b).notices)
    a, b = same_twice(tmp_path / "unknown", one, {})
    assert not any("file" in notice for notice in compare(a, b).notices)


def test_another_video_file_explains_another_answer(tmp_path):
    frames = {"frame_indices": [1]}
    a, b = (
        write_run(tmp_path / name, [answer("q", k, video_digest=name * 16, **frames)])
        for k, name in enumerate("ab")
    )
    (item,) = compare(a, b).items
    assert (item.cause, item.detail) == ("frames", "the video is another file")
