"""Forward passes: a visual prefix once for all rows that share it, in batches.

The rows of one phase differ in the order of their options, or in the question, and
agree in everything before: chat header and video. That common part, nearly all of the
work, is run once; its keys and values come before the tail of every row.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from phasefusion._checks import warn
from phasefusion.errors import FallbackWarning, ScoringError
from phasefusion.scoring.batching import (
    TokenBudget,
    batches,
    bytes_per_token,
    within_memory,
)
from phasefusion.scoring.caches import Prefix, cache_problem, cut, joined
from phasefusion.scoring.encoder import FrameEncoder
from phasefusion.scoring.readout import (
    RowScores,
    distance,
    invalid,
    output_layer,
    projecting,
    read,
)
from phasefusion.scoring.rows import (
    Row,
    VisualInputs,
    common_prefix,
    forward_parameters,
)
from phasefusion.scoring.trees import TokenTree, packing, tree_mask

if TYPE_CHECKING:
    import torch

Unit = TypeVar("Unit")

#: Tokens of a pack of tails: as many as its prefix has, within these bounds. They are
#: compared with each other, so that too many cost more than a second pack.
_LEAST_PACK, _MOST_PACK = 256, 2048

#: Nats between scores that are not the same: of single, and of half precision.
_FAR = (1e-3, 0.25)


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """A row, what it looks at, and the job that it is of."""

    row: Row
    visual: VisualInputs
    job: int


Scores = dict[_Task, RowScores]


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Rows that share their frames and their first `n_prefix` tokens."""

    tasks: list[_Task]
    n_prefix: int


@dataclass(frozen=True, slots=True, eq=False)
class _Pack:
    """Tails of one prefix that are run as one row of a pass."""

    prefix: Prefix
    tasks: list[_Task]
    tree: TokenTree

    @property
    def size(self) -> tuple[int, int]:
        return self.prefix.n_tokens, len(self.tree)

    @property
    def wanted(self) -> NDArray[np.int64]:
        """Where in the pack the positions are that its rows are read at."""
        n = self.prefix.n_tokens
        places = zip(self.tasks, self.tree.paths, strict=True)
        return np.concatenate([path[task.row.at - n] for task, path in places])


class ForwardPasses:
    """Runs rows through a model and reads log-probabilities.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        In evaluation mode, on its device.
    pad_id : int
        A token id to fill short rows with; masked, so any id will do but
        that of the frames.
    batch_size : int, optional
        Most rows in one pass. Default: as many as fit, and with ``reuse_prefix=False``
        one.
    reuse_prefix : bool, default True
        Run a common prefix once where the model's cache allows it, and let the vision
        tower look at every frame once.
    check_reuse : bool, default False
        See at the first rows whether that gives what full passes give, as a model that
        nobody has tried needs.

    Notes
    -----
    A score does not depend on what else is in a pass, up to rounding: 1e-5 for a
    float32 model, and what the model's own precision allows for others.

    While a pass runs, the forward methods of the model's output layer and of its vision
    tower are stood in for, so a model is to be used by one thread at a time.
    """

    def __init__(
        self,
        model: Any,
        *,
        pad_id: int,
        batch_size: int | None = None,
        reuse_prefix: bool = True,
        check_reuse: bool = False,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise ScoringError(f"batch_size is {batch_size}; it must be at least 1")
        self.model = model
        self.pad_id = pad_id
        self.batch_size = batch_size
        self.reuse_prefix = reuse_prefix
        self.budget = TokenBudget(self.device)
        self.encoder = FrameEncoder(model)
        self._problem = self._layer_problem()
        self._unchecked = check_reuse
        self._cannot_reuse = False
        self._warned = False
        self._n_axes = 1
        text = model.config.get_text_config()
        attention = getattr(text, "_attn_implementation", None)
        self._takes_trees = attention in ("sdpa", "eager")
        # Names move between transformers versions: mm_token_type_ids came with 5,
        # past_key_values is becoming cache.
        self._accepts = forward_parameters(model)
        self._cache_name = "cache" if "cache" in self._accepts else "past_key_values"

    @property
    def device(self) -> torch.device:
        """Where token ids go."""
        device: torch.device = self.model.get_input_embeddings().weight.device
        return device

    @property
    def reuses(self) -> bool:
        """Whether prefixes and frames are shared: asked for, and not found wrong."""
        return self.reuse_prefix and not self._cannot_reuse

    def run(self, rows: Sequence[Row], visual: VisualInputs) -> list[RowScores]:
        """Return the scores of every row, in order."""
        return self.run_many([(rows, visual)])[0]

    def run_many(
        self, jobs: Sequence[tuple[Sequence[Row], VisualInputs]]
    ) -> list[list[RowScores]]:
        """Return the scores of the rows of several phases or questions.

        Rows share a prefix where they are given the same `VisualInputs` object, and
        passes whatever they are given.

        Parameters
        ----------
        jobs : sequence of (sequence of Row, VisualInputs)
            Rows that look at the same frames.

        Returns
        -------
        list of list of RowScores
            In the same order. A row that is too long, does not fit into memory even
            alone, or gives no numbers, is invalid, with the reason.
        """
        import torch

        scores: Scores = {}
        tasks = [
            _Task(row, visual, number)
            for number, (rows, visual) in enumerate(jobs)
            for row in rows
        ]
        if self.reuses:
            self.encoder.renew()
        with torch.inference_mode():
            fitting = []
            for task in tasks:
                problem = self._length_problem(task.row)
                if problem:
                    scores[task] = invalid(task.row, problem)
                else:
                    fitting.append(task)
            self.budget.start(bytes_per_token(self.model))
            groups, alone = self._grouped(fitting)
            if groups and self._unchecked:
                self._check(groups[0])
            alone += self._shared(groups, scores)
            self._plain(alone, scores)
        found: list[list[RowScores]] = [[] for _ in jobs]
        for task in tasks:
            found[task.job].append(scores[task])
        return found

    def _length_problem(self, row: Row) -> str:
        config = self.model.config.get_text_config()
        most = getattr(config, "max_position_embeddings", None)
        if most is not None and len(row.ids) > most:
            n = len(row.ids)
            return f"{n} tokens are more than the {most} that the model takes"
        return ""

    # Which rows share what

    def _grouped(self, tasks: Sequence[_Task]) -> tuple[list[_Group], list[_Task]]:
        """Return groups that share a prefix, and the rows that share none."""
        if not self.reuses:
            return [], list(tasks)
        by_visual: dict[int, list[_Task]] = {}
        for task in tasks:
            by_visual.setdefault(id(task.visual), []).append(task)
        groups: list[_Group] = []
        alone: list[_Task] = []
        for same in by_visual.values():
            sets = [same]
            if len(same) > 1 and self._placement_problem(same):
                # Questions before the video: each may still share with itself.
                own = itertools.groupby(same, key=lambda task: task.job)
                sets = [list(some) for _, some in own]
            for some in sets:
                if len(some) < 2:
                    alone += some
                    continue
                problem = self._problem or self._placement_problem(some)
                if problem:
                    self._fall_back(problem)
                    alone += some
                else:
                    rows = [task.row for task in some]
                    groups.append(_Group(some, common_prefix(rows)))
        return groups, alone

    def _placement_problem(self, tasks: Sequence[_Task]) -> str:
        ids, visual = tasks[0].row.ids, tasks[0].visual
        last = int(np.flatnonzero(ids == visual.token_id)[-1])
        # A text token after the video tells positions.
        if common_prefix([task.row for task in tasks]) < last + 2:
            return "the prompts differ before the end of the video"
        return ""

    def _layer_problem(self) -> str:
        layers = getattr(self.model.config.get_text_config(), "layer_types", None) or ()
        other = sorted(set(layers) - {"full_attention"})
        return f"the model has {', '.join(other)} layers" if other else ""

    def _fall_back(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            warn(
                f"the visual prefix cannot be reused ({problem}); every row is run in "
                "full, which is slower and gives the same scores",
                FallbackWarning,
            )

    # Passes, as many rows at once as memory allows

    def _batched(
        self,
        units: Sequence[Unit],
        size: Callable[[Unit], tuple[int, int]],
        run: Callable[[Sequence[Unit]], None],
        most_rows: int | None = None,
    ) -> list[Unit]:
        """Run units in batches; return those that do not fit even alone."""
        failed: list[Unit] = []
        left = list(units)
        while left:
            sizes = [size(unit) for unit in left]
            n = len(next(batches(sizes, self.budget, most_rows=most_rows)))
            if within_memory(partial(run, left[:n]), self.device):
                left = left[n:]
            elif n == 1:
                failed.append(left.pop(0))
            else:
                self.budget.failed(n * max(map(sum, sizes[:n])))
        return failed

    def _shared(self, groups: Sequence[_Group], scores: Scores) -> list[_Task]:
        """Score groups, a few phases at a time; return rows that have to go alone."""
        alone: list[_Task] = []

        def run(wave: Sequence[_Group]) -> None:
            prefixes = [] if self._problem else self._prefixes(wave)
            if not prefixes:
                alone.extend(task for group in wave for task in group.tasks)
                return
            tails = [
                (task, prefix)
                for group, prefix in zip(wave, prefixes, strict=True)
                for task in group.tasks
            ]
            alone.extend(self._tails(tails, scores))

        for _, same in itertools.groupby(groups, key=lambda group: group.n_prefix):
            failed = self._batched(list(same), lambda g: (g.n_prefix, g.n_prefix), run)
            alone += [task for group in failed for task in group.tasks]
        return alone

    def _check(self, group: _Group) -> None:
        """See whether rows behind a cached prefix score as in full passes."""
        some = _Group(group.tasks[:2], group.n_prefix)
        reused: Scores = {}
        plain: Scores = {}
        try:
            if self._shared([some], reused):
                return  # no cache to go on from, or no memory to see it now
        except Exception as error:
            self._problem = f"{type(error).__name__} behind a cached prefix: {error}"
        else:
            self._plain(some.tasks, plain)
            pairs = [(reused[task].logprobs, plain[task].logprobs) for task in plain]
            apart = max(distance(*pair) for pair in pairs)
            if apart > _FAR[self.model.dtype.itemsize < 4]:
                self._problem = (
                    f"log-probabilities of one row differ by {apart:.3g} from those of "
                    "a pass of its own"
                )
        self._unchecked = False
        if self._problem:
            self._cannot_reuse = True
            self._fall_back(self._problem)

    def _prefixes(self, wave: Sequence[_Group]) -> list[Prefix]:
        """Run what each group has in common; nothing where no cache can be reused."""
        n = wave[0].n_prefix
        head, mask = self._padded([group.tasks[0].row.ids[:n] for group in wave])
        inputs = self._visuals(head, [group.tasks[0].visual for group in wave])
        out = self._pass(
            {"input_ids": head, "attention_mask": mask, "use_cache": True, **inputs},
            [np.empty(0, np.int64)] * len(wave),
            [group.tasks[0].visual for group in wave],
        )[0]
        cache = out.get(self._cache_name)
        self._problem = cache_problem(cache)
        if self._problem:
            self._fall_back(self._problem)
            return []
        starts = self._next_positions(head, inputs)
        return [Prefix(cut(cache, i, n), n, at) for i, at in enumerate(starts)]

    def _tails(
        self, tasks: Sequence[tuple[_Task, Prefix]], scores: Scores
    ) -> list[_Task]:
        """Score rows behind their prefixes; return those that do not fit even alone."""
        spoilt: list[_Pack] = []

        def run(packs: Sequence[_Pack]) -> None:
            logits = self._pass(self._tail_inputs(packs), [p.wanted for p in packs])[1]
            rows = [task.row for pack in packs for task in pack.tasks]
            found = iter(read(logits, rows))
            for pack in packs:
                some = dict(zip(pack.tasks, found, strict=False))
                scores.update(some)
                if len(some) > 1 and any(score.problem for score in some.values()):
                    spoilt.append(pack)

        left = self._packed(tasks)
        alone: list[_Task] = []
        most = None if self.batch_size is None else 1
        while left:
            left.sort(key=lambda pack: len(pack.tree))
            failed = self._batched(left, lambda pack: pack.size, run, most)
            alone += [pack.tasks[0] for pack in failed if len(pack.tasks) == 1]
            left = [
                half for pack in failed if len(pack.tasks) > 1 for half in _halves(pack)
            ]
            # A row that is no number may have made its neighbours so.
            left += [one for pack in spoilt for one in _singles(pack)]
            spoilt.clear()
        return alone

    def _packed(self, tasks: Sequence[tuple[_Task, Prefix]]) -> list[_Pack]:
        """Put the rows of each prefix together, a few at a time."""
        packs = []
        for prefix, same in itertools.groupby(tasks, key=lambda pair: pair[1]):
            # Neighbours begin alike, as far as any rows do.
            rows = sorted((task for task, _ in same), key=lambda t: t.row.ids.tolist())
            most_rows = (self.batch_size or len(rows)) if self._takes_trees else 1
            most_tokens = min(max(prefix.n_tokens, _LEAST_PACK), _MOST_PACK)
            sizes = [len(task.row.ids) - prefix.n_tokens for task in rows]
            start = 0
            for stop in packing(sizes, most_rows, most_tokens):
                packs.append(_pack(prefix, rows[start:stop]))
                start = stop
        return packs

    def _tail_inputs(self, packs: Sequence[_Pack]) -> dict[str, Any]:
        import torch

        ids, mask = self._padded([pack.tree.ids for pack in packs])
        n_past = packs[0].prefix.n_tokens  # as of all
        depths, _ = self._padded([pack.tree.depths for pack in packs])
        starts = torch.tensor([pack.prefix.position for pack in packs])
        positions = depths + starts[:, None].to(depths.device)
        if self._n_axes > 1:
            positions = positions.expand(self._n_axes, -1, -1)
        if any(len(pack.tasks) > 1 for pack in packs):
            visible = [pack.tree.visible() for pack in packs]
            attention = tree_mask(n_past, visible, self.model.dtype).to(ids.device)
        else:
            attention = torch.cat([mask.new_ones(len(mask), n_past), mask], dim=1)
        return {
            "input_ids": ids,
            "attention_mask": attention,
            "position_ids": positions,
            "use_cache": True,
            self._cache_name: joined([pack.prefix for pack in packs]),
        }

    def _plain(self, tasks: Sequence[_Task], scores: Scores) -> None:
        """Score rows in full passes; what does not fit alone is invalid."""

        def run(some: Sequence[_Task]) -> None:
            ids, mask = self._padded([task.row.ids for task in some])
            inputs = self._visuals(ids, [task.visual for task in some])
            logits = self._pass(
                {
                    "input_ids": ids,
                    "attention_mask": mask,
                    "use_cache": False,
                    **inputs,
                },
                [task.row.at for task in some],
                [task.visual for task in some],
            )[1]
            found = read(logits, [task.row for task in some])
            scores.update(zip(some, found, strict=True))

        most = self.batch_size if self.reuses else self.batch_size or 1
        by_length = sorted(tasks, key=lambda task: len(task.row.ids))
        for task in self._batched(by_length, lambda t: (0, len(t.row.ids)), run, most):
            n = len(task.row.ids)
            problem = f"the model ran out of memory in a pass of {n} tokens alone"
            scores[task] = invalid(task.row, problem)

    def _pass(
        self,
        inputs: dict[str, Any],
        wanted: Sequence[NDArray[np.int64]],
        visuals: Sequence[VisualInputs] = (),
    ) -> tuple[Any, torch.Tensor]:
        """Run the model once; its output, and the logits of all wanted positions.

        Parameters
        ----------
        inputs : dict
            Keyword arguments of the model.
        wanted : sequence of ndarray
            Of each row, the positions that are read.
        visuals : sequence of VisualInputs
            Of each row whose frames are among the inputs.
        """
        import torch

        ids = inputs["input_ids"]
        counts = [len(at) for at in wanted]
        rows = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
        at = np.concatenate(wanted)
        inputs = dict(inputs)
        if output_layer(self.model) is None and "logits_to_keep" in self._accepts:
            keep = np.unique(at) if at.size else np.zeros(1, np.int64)
            inputs["logits_to_keep"] = torch.from_numpy(keep).to(ids.device)
            at = np.searchsorted(keep, at)
        positions = torch.from_numpy(at)
        with (
            self.encoder.encoding(visuals if self.reuses else ()),
            projecting(self.model, rows, positions, tuple(ids.shape)) as chosen,
        ):
            out = self.model(**inputs)
        logits = out.logits[0] if chosen.applied else out.logits[rows, positions]
        return out, logits

    def looking(self, visual: VisualInputs) -> AbstractContextManager[None]:
        """Let the tower look once at frames that `generate` is given again and again.

        Of a model that nobody has tried it looks each time.
        """
        is_sound = self.reuses and not self._unchecked
        return self.encoder.encoding([visual] if is_sound else ())

    # What the model takes

    def _next_positions(
        self, head: torch.Tensor, visual: Mapping[str, Any]
    ) -> list[int]:
        """Return the position of the first text token after each shared prefix.

        Where frames have positions of their own, it is read off the last prefix token.
        The model's own `rope_deltas` counts from the highest position instead, which in
        a long video belongs to a frame.
        """
        index = getattr(getattr(self.model, "model", None), "get_rope_index", None)
        if index is None:
            return [head.shape[1]] * len(head)
        known = inspect.signature(index).parameters
        inputs = {name: value for name, value in visual.items() if name in known}
        positions, _ = index(input_ids=head, **inputs)
        self._n_axes = len(positions)
        last: list[int] = positions[0, :, -1].tolist()
        return [position + 1 for position in last]

    def _padded(
        self, sequences: Sequence[NDArray[np.int64]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        width = max(len(ids) for ids in sequences)
        table = np.full((len(sequences), width), self.pad_id, dtype=np.int64)
        mask = np.zeros((len(sequences), width), dtype=np.int64)
        for i, ids in enumerate(sequences):
            table[i, : len(ids)] = ids
            mask[i, : len(ids)] = 1
        device = self.device
        return torch.from_numpy(table).to(device), torch.from_numpy(mask).to(device)

    def _visual(self, ids: torch.Tensor, visual: VisualInputs) -> dict[str, Any]:
        return self._visuals(ids, [visual] * len(ids))

    def _visuals(
        self, ids: torch.Tensor, visuals: Sequence[VisualInputs]
    ) -> dict[str, Any]:
        """Return what the model takes beside the ids, for as many rows.

        Of numbers a token, those that this version of the model does not take are left
        out: it places the frames by the ids alone. Left out where they are taken, the
        frames would be placed as if they were text, and nothing said.
        """
        import torch

        inputs: dict[str, Any] = {}
        for name in visuals[0].arrays:
            parts = [np.ascontiguousarray(visual.arrays[name]) for visual in visuals]
            whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
            tensor = torch.from_numpy(whole).to(ids.device)
            if visuals[0].in_its_precision and tensor.is_floating_point():
                tensor = tensor.to(self.model.dtype)
            inputs[name] = tensor
        for name, numbers in visuals[0].kinds.items():
            if name in self._accepts:
                inputs[name] = torch.zeros_like(ids, dtype=torch.int32)
                for token, number in numbers.items():
                    inputs[name][ids == token] = number
        return inputs


def _pack(prefix: Prefix, tasks: list[_Task]) -> _Pack:
    tree = TokenTree.of([task.row.ids[prefix.n_tokens :] for task in tasks])
    return _Pack(prefix, tasks, tree)


def _halves(pack: _Pack) -> list[_Pack]:
    half = len(pack.tasks) // 2
    parts = (pack.tasks[:half], pack.tasks[half:])
    return [_pack(pack.prefix, tasks) for tasks in parts]


def _singles(pack: _Pack) -> list[_Pack]:
    return [_pack(pack.prefix, [task]) for task in pack.tasks]
