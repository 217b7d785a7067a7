"""The files that the videos of a run were, and whether they are the same now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from phasefusion._video_digest import digest_of_file
from phasefusion._wording import by_number, counted, item_name
from phasefusion.datasets import Item
from phasefusion.errors import RecordError
from phasefusion.records.told import told

#: Videos, and questions of one, that a message names.
_SHOWN = 5
_SHOWN_QUESTIONS = 3

#: Benchmark and id of a question.
Key: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class KnownVideos:
    """The digest that each video of a run had when passes were made of it."""

    digest: dict[str, str] = field(default_factory=dict)

    def check(self, video: str, digest: str | None) -> None:
        """Take the digest of a video; RecordError if it had another one before."""
        known = told(self.digest, video, digest)
        if digest not in (None, known):
            raise RecordError(
                f"{video}: is another file than the one that passes of this run were "
                f"made of: digest {known} -> {digest}; put the old file back, or "
                "choose another folder; what was scored before is on disk"
            )


def known_videos(
    folder: object, recorded: Mapping[Key, str], items: Iterable[Item]
) -> KnownVideos:
    """Return the videos of a run's passes, if they are the same files now.

    Parameters
    ----------
    folder : path
        The run, for the message.
    recorded : mapping
        The digest in the passes of a question.
    items : iterable of Item
        The questions, with what their videos are now.

    Raises
    ------
    RecordError
        Naming the videos that are other files, and their questions. One that is not
        there is said where it is opened.
    """
    by_video: dict[str, dict[Key, str]] = {}
    for item in items:
        key = item.benchmark, item.question_id
        digest = recorded.get(key)
        if digest is not None:
            by_video.setdefault(item.video, {})[key] = digest
    found, changed = KnownVideos(), []
    for video, of_question in by_video.items():
        now = digest_of_file(video)
        others = [key for key, then in of_question.items() if now not in (None, then)]
        if others:
            names = ", ".join(item_name(*key) for key in others[:_SHOWN_QUESTIONS])
            names += ", ..." if len(others) > _SHOWN_QUESTIONS else ""
            changed.append(
                f"{video}: digest {of_question[others[0]]} -> {now}, "
                f"{counted(len(others), 'question')}: {names}"
            )
        found.digest[video] = now or next(iter(of_question.values()))
    if changed:
        more = ["..."] if len(changed) > _SHOWN else []
        n = len(changed)
        files = by_number(n, "file", "files")
        raise RecordError(
            f"{folder}: {counted(n, 'video')} {by_number(n, 'is', 'are')} not the "
            f"{files} that passes of this run were made of; put the old {files} back, "
            "or choose another folder:\n  " + "\n  ".join(changed[:_SHOWN] + more)
        )
    return found
