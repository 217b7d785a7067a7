"""Reading the datasets that people have: files or rows in, checked items out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from phasefusion._checks import warn
from phasefusion._paths import path_of
from phasefusion.datasets.item import Item
from phasefusion.datasets.report import Dataset, DatasetReport
from phasefusion.errors import DatasetError, DatasetWarning, OptionWarning

if TYPE_CHECKING:
    from phasefusion.datasets._sources import Source

MissingVideos: TypeAlias = Literal["error", "leave-out", "keep"]
Rows: TypeAlias = str | Path | Mapping[str, Any] | Iterable[Mapping[str, Any]]
Gold: TypeAlias = str | Path | Mapping[str, Any]

#: Fields that a question of the project's own form has, besides its options.
_PLAIN = ("question_id", "video", "question")
MISSING_VIDEOS = ("error", "leave-out", "keep")


def names() -> tuple[str, ...]:
    """Names of the datasets that can be read.

    Examples
    --------
    >>> names()[:4]
    ('egoschema', 'longvideobench', 'mlvu', 'mvbench')
    """
    from phasefusion.datasets._forms import FORMS

    return tuple(FORMS)


def detect(path: str | Path) -> str | None:
    """Tell which dataset a file, or a folder of files, is of.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    str or None
        One of `names`; None where the form is not known.

    Raises
    ------
    DatasetError
        If it cannot be read.
    FileNotFoundError
        If it is not there.
    """
    from phasefusion.datasets._shapes import detect as detect_source
    from phasefusion.datasets._sources import read_sources

    return detect_source(read_sources(path)[0])


def load(
    name: str,
    source: Rows,
    *,
    videos: str | Path | None = None,
    subtitles: str | Path | None = None,
    gold: Gold | None = None,
    task: str | None = None,
    version: str | None = None,
    missing_videos: MissingVideos = "error",
    lenient: bool = False,
) -> list[Item]:
    """Read a dataset and return the questions that can be scored.

    What was left out, and gold that cannot be used, is said in one `DatasetWarning`;
    `read` gives the whole account.

    Parameters
    ----------
    name : str
        One of `names`, in any spelling ("Video-MME", "NExT-QA"), or "auto".
    source : path, iterable of mapping, or mapping
        A JSON, JSONL, CSV, TSV, XLSX or parquet file, a folder of such files, rows
        (such as a split of Hugging Face's ``datasets``), or the object that a JSON file
        holds. For MVBench also ``{task: rows}``.
    videos : path, optional
        The folder that holds the videos, at any depth, with any usual ending; that of
        the file by default.
    subtitles : path, optional
        The folder that holds the subtitles, named after the videos. By default only
        those are found that rows name or hold themselves.
    gold : path or mapping, optional
        Right answers by question id, where they are in a file of their own, such as
        EgoSchema's ``subset_answers.json``; they count before those of `source`.
    task : str, optional
        Task of all rows, for MVBench and MLVU, where neither file nor rows say it.
    version : str, optional
        Of the benchmark, where several are in use. It becomes part of
        `Item.benchmark`, so that their ids stay apart.
    missing_videos : {"error", "leave-out", "keep"}, default "error"
        Whether videos that are not there are an error that counts them, leave their
        questions out, or are left to the run; in the project's own form also subtitle
        files that questions name. The files of benchmarks name subtitles that not
        everybody has: their questions are kept, and the files counted.
    lenient : bool, default False
        Read JSON with commas before closing brackets, and say so.

    Returns
    -------
    list of Item
        In the order of the files.

    Raises
    ------
    DatasetError
        Naming file and place, if a file cannot be read, one id names several
        questions, videos are missing, or no question can be scored.
    FileNotFoundError
        If a file is not there.
    BackendUnavailableError
        For parquet files without pyarrow, spreadsheets without openpyxl.

    Warns
    -----
    DatasetWarning
        If a question was left out, lost its gold, or names subtitles that are not
        there.

    Examples
    --------
    >>> row = {"video": 4010069381, "qid": 6, "question": "how do they play",
    ...        "a0": "roll", "a1": "tap", "a2": "strum", "answer": 2, "type": "CH"}
    >>> (item,) = load("NExT-QA", [row], missing_videos="keep")
    >>> item.question_id, item.options[item.gold]
    ('4010069381_6', 'strum')
    """
    found = read(
        name,
        source,
        videos=videos,
        subtitles=subtitles,
        gold=gold,
        task=task,
        version=version,
        missing_videos=missing_videos,
        lenient=lenient,
    )
    warn_about(found.report)
    return list(found)


def warn_about(report: DatasetReport) -> None:
    """Say in one warning what was left out of a dataset; nothing when all is well."""
    if not report.is_quiet:
        warn(str(report), DatasetWarning)


def read_questions(
    path: str | Path, *, missing_videos: MissingVideos = "error"
) -> Dataset:
    """Read a question file of any form as `read` does, and say what was left out.

    Parameters
    ----------
    path : str or Path
    missing_videos : {"error", "leave-out", "keep"}, default "error"

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetError, FileNotFoundError, BackendUnavailableError
        As `load` does.

    Warns
    -----
    DatasetWarning
        If a question was left out, lost its gold, or names subtitles that are not
        there.
    OptionWarning
        If options occur more than once.
    """
    found = read("auto", path, missing_videos=missing_videos)
    announce(found.report)
    return found


def announce(report: DatasetReport, *, strict: bool = False) -> None:
    """Say before a run what its questions are not, or stop there with `strict`.

    Raises
    ------
    DatasetError
        With `strict`, if anything was left out or lost its gold.
    """
    if strict and not report.is_clean:
        raise DatasetError(f"--strict: {report}")
    warn_about(report)
    repeats = report.finding("repeated option")
    if repeats is not None:
        warn(str(repeats), OptionWarning)
    unused = report.finding("field not used")
    if unused is not None and report.is_quiet:  # else it has been said
        warn(str(unused), DatasetWarning)


def read(
    name: str,
    source: Rows,
    *,
    videos: str | Path | None = None,
    subtitles: str | Path | None = None,
    gold: Gold | None = None,
    task: str | None = None,
    version: str | None = None,
    missing_videos: MissingVideos = "error",
    lenient: bool = False,
) -> Dataset:
    """Read a dataset and give the account of every question in it.

    Parameters
    ----------
    name, source, videos, subtitles, gold, task, version, missing_videos, lenient
        As in `load`.

    Returns
    -------
    Dataset
        A sequence of the items that can be scored, with a `DatasetReport`.

    Raises
    ------
    DatasetError, FileNotFoundError, BackendUnavailableError
        As `load` does.

    Examples
    --------
    >>> rows = [{"q_uid": "a", "question": "What?", "option 0": "x", "option 1": ""}]
    >>> rows += [{"q_uid": "b", "question": "What?", "option 0": "x", "option 1": "y"}]
    >>> report = read("egoschema", rows, missing_videos="keep").report
    >>> report.read, report.kept, report.left_out[0].kind
    (2, 1, 'no options')
    """
    from phasefusion.datasets._reading import Reader, Settings
    from phasefusion.datasets._shapes import detect as detect_source
    from phasefusion.datasets._sources import read_sources

    if missing_videos not in MISSING_VIDEOS:
        raise DatasetError(
            f"missing_videos={missing_videos!r} is not one of "
            f"{', '.join(MISSING_VIDEOS)}"
        )
    wanted = "auto" if name == "auto" else canonical(name)
    sources = read_sources(source, lenient=lenient)
    if wanted == "auto":
        wanted = _detected(sources[0], detect_source(sources[0]))
    settings = Settings(
        name=wanted,
        videos=_folder(videos, source),
        subtitles=None if subtitles is None else _existing("subtitles", subtitles),
        gold=gold,
        task=task,
        version=version,
        missing_videos=missing_videos,
        lenient=lenient,
    )
    return Reader(settings).read(sources)


def _detected(source: Source, name: str | None) -> str:
    if name is None:
        raise DatasetError(f"{source.where}: {_why_unknown(source.value)}")
    return name


def _why_unknown(value: Any) -> str:
    """Say what is wrong with a file that is of none of the forms."""
    from phasefusion.datasets._reading import OPTION_FORMS

    if isinstance(value, Mapping):
        value = value.get("questions")
    if not isinstance(value, list):
        return (
            'must be a list of questions, or an object whose "questions" is one, or of '
            f"one of the forms {', '.join(names())}"
        )
    if not value:
        return "holds no questions"
    if not isinstance(value[0], Mapping):
        return f"item 0: a question is an object, not {value[0]!r:.80}"
    there = ", ".join(map(str, value[0])) or "no fields"
    lacking = [name for name in _PLAIN if name not in value[0]]
    if not lacking:
        return (
            f"the first question has no options; it has {there}. Rename fields: "
            f"{OPTION_FORMS}; or name the form of the file: "
            f"{', '.join(names())}"
        )
    if len(lacking) < len(_PLAIN):
        return (
            f"the first question has no {' and no '.join(lacking)}; it has {there}. "
            f"Rename fields, or name the form of the file: {', '.join(names())}"
        )
    return (
        f"is of no known form; the first question has {there}; say which form it is: "
        f"{', '.join(names())}"
    )


def canonical(name: str) -> str:
    """Return the name of a dataset as `names` has it.

    Examples
    --------
    >>> canonical("Video_MME"), canonical("Perception Test")
    ('videomme', 'perceptiontest')
    """
    known = {_letters(one): one for one in names()}
    found = known.get(_letters(name)) if isinstance(name, str) else None
    if found is None:
        raise DatasetError(
            f"dataset {name!r} is not one of auto, {', '.join(sorted(known.values()))}"
        )
    return found


def _letters(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())


def _folder(videos: str | Path | None, source: Rows) -> Path:
    """Folder to look for videos in."""
    if videos is not None:
        return _existing("videos", videos)
    if isinstance(source, str | Path):
        path = Path(source)
        return (path if path.is_dir() else path.parent).resolve()
    return Path().resolve()


def _existing(name: str, given: str | Path) -> Path:
    folder = path_of(name, given, f"a folder of {name}")
    if not folder.is_dir():
        raise DatasetError(f"{folder}: is no folder; name one that is there")
    return folder.resolve()
