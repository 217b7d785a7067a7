"""Tasks of lmms-eval with their options in another order, for any of its models.

A view of a task shows the same questions, options and prompt, the options permuted, and
translates the answer back before the task scores it. Accuracy by order, and what an
order changes, then come from the harness alone.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from phasefusion._paths import path_of
from phasefusion.answers import parse_answer
from phasefusion.datasets import load_questions
from phasefusion.errors import BackendUnavailableError, DatasetError, OptionError
from phasefusion.harness.docs import read_doc
from phasefusion.harness.prompts import ShownOptions, find_options
from phasefusion.scoring.letters import LETTERS, PromptTemplate

__all__ = ["OrderView", "QuestionTask", "order_view", "tasks_dir", "view_order"]

_FUNCTIONS_FILE = "phasefusion_views"
_ROTATED = re.compile(r"rotate_?([1-9]\d?)")
_TASK_NAME = re.compile(r"^task:\s*[\"']?([\w.-]+)[\"']?\s*$", re.MULTILINE)


def view_order(name: str, n_options: int) -> tuple[int, ...]:
    """Return the order that a view shows, ``order[pos] = content``.

    Parameters
    ----------
    name : str
        "reverse", or "rotate1", "rotate2", ...: the option at that place comes first.
    n_options : int

    Raises
    ------
    OptionError
        If there is no such order.

    Examples
    --------
    >>> view_order("reverse", 4), view_order("rotate1", 4)
    ((3, 2, 1, 0), (1, 2, 3, 0))
    """
    if name == "reverse":
        return tuple(range(n_options - 1, -1, -1))
    match = _ROTATED.fullmatch(name)
    if match is None:
        raise OptionError(
            f"order {name!r} is neither reverse nor rotate1, rotate2, ..."
        )
    return tuple((pos + int(match[1])) % n_options for pos in range(n_options))


class OrderView:
    """The functions of a task, with its options in another order.

    Parameters
    ----------
    task : str
        Name of the task, for the rules by which its documents are read.
    doc_to_text, process_results : callable
        The task's own.
    order : str
        See `view_order`.
    """

    def __init__(
        self,
        task: str,
        doc_to_text: Callable[..., str],
        process_results: Callable[..., Any],
        order: str,
    ) -> None:
        view_order(order, 2)
        self._task = task
        self._doc_to_text = doc_to_text
        self._process_results = process_results
        self._order = order

    def _shown(self, doc: Mapping[str, Any], **kwargs: Any) -> ShownOptions:
        text = self._doc_to_text(doc, **kwargs)
        options = read_doc(self._task, doc).options
        if options is not None:
            try:
                return find_options(text, options)
            except OptionError:  # a task may show less than its document has
                pass
        return find_options(text)

    def doc_to_text(
        self, doc: Mapping[str, Any], lmms_eval_specific_kwargs: Any = None
    ) -> str:
        """Return the task's prompt, its options permuted."""
        shown = self._shown(doc, **self._kwargs(lmms_eval_specific_kwargs))
        return shown.render(view_order(self._order, len(shown.texts)))

    def process_results(self, doc: Mapping[str, Any], results: Sequence[Any]) -> Any:
        """Score the answer by the task's rules, as if given in the task's own order.

        A text that names no option reaches the task empty.
        """
        shown = self._shown(doc, **self._kwargs({}))
        order = view_order(self._order, len(shown.texts))
        displayed = [shown.texts[k] for k in order]
        said = results[0] if results else None
        parsed = parse_answer(said if isinstance(said, str) else None, displayed)
        letter = "" if parsed.answer is None else LETTERS[order[parsed.answer]]
        return self._process_results(doc, [letter])

    def _kwargs(self, given: Any) -> dict[str, Any]:
        """Hand on the prompt's settings to a task that takes them."""
        code = getattr(self._doc_to_text, "__code__", None)
        if code is not None and "lmms_eval_specific_kwargs" not in code.co_varnames:
            return {}
        empty = {"pre_prompt": "", "post_prompt": ""}
        return {"lmms_eval_specific_kwargs": {**empty, **(given or {})}}


def order_view(yaml_file: str, order: str) -> OrderView:
    """Return the view of the task that a YAML file describes."""
    utils: Any = importlib.import_module("lmms_eval.utils")
    config = utils.load_yaml_config(yaml_file, mode="full")
    for name in ("doc_to_text", "process_results"):
        if not callable(config.get(name)):
            raise DatasetError(
                f"{yaml_file}: {name} is {config.get(name)!r}; only a task with a "
                "function there has views"
            )
    task = str(config.get("task", Path(yaml_file).stem))
    return OrderView(task, config["doc_to_text"], config["process_results"], order)


class QuestionTask:
    """The functions of a task over a question file of phasefusion's own form.

    Parameters
    ----------
    root : str or Path
        The folder that video paths are relative to.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = path_of("root", root, "a folder")

    def doc_to_visual(self, doc: Mapping[str, Any]) -> list[Any]:
        """Return the path of the video, and its bounds where it has some."""
        path = str(self._root / doc["video"])
        start, end = doc.get("start"), doc.get("end")
        if start is None and end is None:
            return [path]
        bounds = {"video_start": start, "video_end": end}
        given = {name: value for name, value in bounds.items() if value is not None}
        return [{"type": "video", "url": path, **given}]

    def doc_to_text(
        self, doc: Mapping[str, Any], lmms_eval_specific_kwargs: Any = None
    ) -> str:
        """Return phasefusion's default prompt, or that of the settings."""
        given = dict(lmms_eval_specific_kwargs or {})
        default = PromptTemplate().text.partition("{options}")[2]
        shown = PromptTemplate("{question}\n{options}")
        text = shown.render(doc["question"], doc["options"])
        return f"{given.get('pre_prompt', '')}{text}{given.get('post_prompt', default)}"

    def doc_to_target(self, doc: Mapping[str, Any]) -> str:
        """Return the letter of the right option; empty where it is not known."""
        answer = doc.get("answer")
        return "" if answer is None else LETTERS[int(answer)]

    def process_results(
        self, doc: Mapping[str, Any], results: Sequence[Any]
    ) -> dict[str, float]:
        """Return accuracy, and whether the text named an option."""
        said = results[0] if results else None
        found = parse_answer(said if isinstance(said, str) else None, doc["options"])
        right = found.answer is not None and found.answer == doc.get("answer")
        return {"accuracy": float(right), "parsed": float(found.answer is not None)}


def tasks_dir(
    *tasks: str,
    questions: str | Path | None = None,
    orders: Sequence[str] = ("reverse",),
    folder: str | Path | None = None,
) -> Path:
    """Return a folder for lmms-eval's ``--include_path``.

    Parameters
    ----------
    *tasks : str
        Tasks of lmms-eval, such as ``"videomme"``, to make views of.
    questions : path, optional
        A question file to make a task of, and its views: ``pf_NAME``, NAME being that
        of the file.
    orders : sequence of str, default ("reverse",)
        Of the views, see `view_order`; a view is named ``TASK_pf_ORDER``.
    folder : path, optional
        Where they are written. Without `tasks` and `questions` there is nothing to
        write, and the folder is the one that comes with phasefusion: the tasks
        ``pf_tiny``, ``pf_tiny_pf_reverse`` and ``pf_tiny_pf_rotate1`` over the shipped
        clips.

    Returns
    -------
    Path

    Raises
    ------
    DatasetError
        If lmms-eval has no such task, or one that has no views.
    BackendUnavailableError
        If views are wanted and lmms-eval cannot be imported.

    Examples
    --------
    >>> sorted(path.name for path in tasks_dir().glob("*.yaml"))
    ['pf_tiny.yaml', 'pf_tiny_pf_reverse.yaml', 'pf_tiny_pf_rotate1.yaml']
    """
    if not tasks and questions is None:
        return Path(str(files("phasefusion.harness").joinpath("tasks")))
    if folder is None:
        wanted = ", ".join(map(repr, tasks)) or repr(questions)
        raise DatasetError(
            f"tasks_dir makes views of {wanted} and needs a folder to write them into: "
            "folder=PATH; without arguments it is the folder of the shipped tasks"
        )
    for order in orders:
        view_order(order, 2)
    folder = path_of("folder", folder, "a folder").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    code = ['"""Written by phasefusion.tasks_dir."""', ""]
    code += [
        "from phasefusion.harness.views import OrderView, QuestionTask, order_view"
    ]
    if questions is not None:
        code += _write_questions(Path(questions), folder, orders)
    for task in tasks:
        code += _write_views(task, _find_task(task), folder, orders)
    (folder / f"{_FUNCTIONS_FILE}.py").write_text("\n".join(code) + "\n")
    return folder


def _write_views(
    task: str, yaml_file: Path, folder: Path, orders: Sequence[str]
) -> list[str]:
    code = []
    for order in orders:
        view = f"{task}_pf_{order}"
        variable = re.sub(r"\W", "_", view)
        order_view(str(yaml_file), order)  # says now what would fail later
        code += ["", f"{variable} = order_view({str(yaml_file)!r}, {order!r})"]
        code += _flat(variable, ("doc_to_text", "process_results"))
        _write_yaml(
            folder / f"{view}.yaml",
            {"include": json.dumps(str(yaml_file)), "task": view},
            {
                "doc_to_text": f"{variable}_doc_to_text",
                "process_results": f"{variable}_process_results",
            },
        )
    return code


_QUESTION_FUNCTIONS = (
    *("doc_to_visual", "doc_to_text"),
    *("doc_to_target", "process_results"),
)


def _write_questions(path: Path, folder: Path, orders: Sequence[str]) -> list[str]:
    """Write a question file as one that lmms-eval reads, its task, and the views."""
    name = f"pf_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}"
    data = folder / f"{name}.jsonl"
    with open(data, "w", encoding="utf-8") as file:
        for item in load_questions(path):
            row = {
                "question_id": item.question_id,
                "video": item.video,
                "video_id": item.video_id,
                "question": item.question,
                "options": list(item.options),
                "answer": item.gold,
                "type": item.type,
                "start": item.start,
                "end": item.end,
            }
            file.write(json.dumps(row) + "\n")
    code = ["", f"{name} = QuestionTask({str(folder)!r})"]
    code += _flat(name, _QUESTION_FUNCTIONS)
    functions = {one: f"{name}_{one}" for one in _QUESTION_FUNCTIONS}
    base = folder / f"{name}.yaml"
    _write_yaml(base, {"task": name}, functions, question_settings(data.name))
    for order in orders:
        view = f"{name}_pf_{order}"
        code += ["", f"{view} = OrderView({name!r}, {name}.doc_to_text,"]
        code += [f"    {name}.process_results, {order!r})"]
        code += _flat(view, ("doc_to_text", "process_results"))
        shown = functions | {
            one: f"{view}_{one}" for one in ("doc_to_text", "process_results")
        }
        path = folder / f"{view}.yaml"
        _write_yaml(path, {"task": view}, shown, question_settings(data.name))
    return code


def question_settings(data_file: str) -> str:
    """Return the rest of the YAML of a task over a question file."""
    return f"""dataset_path: json
dataset_kwargs:
  data_files:
    test: {json.dumps(data_file)}
test_split: test
output_type: generate_until
generation_kwargs:
  max_new_tokens: 16
  temperature: 0
  do_sample: false
metric_list:
  - metric: accuracy
    aggregation: mean
    higher_is_better: true
  - metric: parsed
    aggregation: mean
    higher_is_better: true
"""


def _write_yaml(
    path: Path,
    values: Mapping[str, str],
    functions: Mapping[str, str],
    rest: str = "",
) -> None:
    lines = [f"{name}: {value}" for name, value in values.items()]
    lines += [
        f"{name}: !function {_FUNCTIONS_FILE}.{function}"
        for name, function in functions.items()
    ]
    path.write_text("\n".join(lines) + "\n" + rest, encoding="utf-8")


def _flat(variable: str, names: Sequence[str]) -> list[str]:
    """Names of functions in the module itself, where a YAML file finds them."""
    return [f"{variable}_{name} = {variable}.{name}" for name in names]


def _find_task(task: str) -> Path:
    """Find the YAML file of a task that comes with lmms-eval."""
    try:
        package = importlib.import_module("lmms_eval")
    except ImportError as error:
        raise BackendUnavailableError(
            f"views of lmms-eval's tasks need lmms-eval: {error}"
        ) from error
    root = Path(str(package.__file__)).parent / "tasks"
    for path in sorted(root.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8", errors="replace")
        match = _TASK_NAME.search(text)
        if match is not None and match[1] == task:
            return path
    raise DatasetError(f"lmms-eval has no task {task!r}")
