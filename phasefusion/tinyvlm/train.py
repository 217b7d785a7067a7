"""Train the tiny video-language model from nothing, then evaluate it.

Run as ``python -m phasefusion.tinyvlm.train --out DIR --seed N``. The letter of the
right option alone is too thin a signal for so small a network, so linear probes, thrown
away after training, supervise the steps that such a network has to make: *see* (the
clip's contents, from the vision tower's output), *say* (the answer, at the end of the
question), *name* (each option's letter, at its word) and *fit* (whether each option is
right, at its word). Questions that their own text answers teach the binding of letters.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import Qwen2_5_VLForConditionalGeneration

from phasefusion.tinyvlm import evaluate, questions_path
from phasefusion.tinyvlm.batches import SEE_CLASSES, Bank, Batches, Stage, schedule
from phasefusion.tinyvlm.clips import build_bank
from phasefusion.tinyvlm.dataset import HELD_OUT_SEED, write_dataset
from phasefusion.tinyvlm.network import (
    IMAGE_MEAN,
    IMAGE_STD,
    INPUT_SIDE_PX,
    MERGE,
    PAIR_TOKENS,
    PATCH_PX,
    TEMPORAL_PATCH,
    build_network,
    fast_vision,
    last_hidden_states,
)
from phasefusion.tinyvlm.questions import CONCEPTS
from phasefusion.tinyvlm.tokens import Encoder, build_tokenizer, special_ids

__all__ = ["Probes", "main", "save", "train"]

TRAIN_BANK_SEED = 7101


class Probes(nn.Module):
    """Linear read-outs of the network's inner states, for training only."""

    def __init__(
        self,
        network: Qwen2_5_VLForConditionalGeneration,
        *,
        name_layer: int = 2,
        say_layer: int = 3,
        fit_layer: int = 4,
    ) -> None:
        super().__init__()
        embedding: Any = network.get_input_embeddings()
        width = int(embedding.weight.shape[1])

        def head(n_in: int, n_out: int) -> nn.Module:
            return nn.Sequential(nn.LayerNorm(n_in), nn.Linear(n_in, n_out))

        self.see = head(PAIR_TOKENS * width, sum(SEE_CLASSES))
        self.say = head(width, len(CONCEPTS))
        self.name = head(width, 5)
        self.fit = head(width, 1)
        self.kept: dict[str, Tensor] = {}
        layers = network.model.language_model.layers
        layers[0].register_forward_pre_hook(self._keep_input)
        for probe, layer in (
            ("name", name_layer),
            ("say", say_layer),
            ("fit", fit_layer),
        ):
            layers[min(layer, len(layers)) - 1].register_forward_hook(
                self._keeper(probe)
            )

    def _keep_input(self, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self.kept["see"] = inputs[0]

    def _keeper(self, probe: str) -> Any:
        def keep(_: nn.Module, __: Any, output: Any) -> None:
            self.kept[probe] = output[0] if isinstance(output, tuple) else output

        return keep

    def losses(self, batch: dict[str, Tensor], is_video: Tensor) -> dict[str, Tensor]:
        """Losses of the four probes on the states kept from the last forward pass."""
        n_row = len(is_video)
        rows = torch.arange(n_row)
        width = self.kept["see"].shape[-1]
        pairs = self.kept["see"][is_video].view(n_row, -1, PAIR_TOKENS * width)
        fields = zip(
            self.see(pairs).split(SEE_CLASSES, -1), batch["see"].unbind(-1), strict=True
        )
        see = [functional.cross_entropy(x.transpose(1, 2), y) for x, y in fields]
        row, position, letter, fits, concept = batch["option"].T
        fit = self.fit(self.kept["fit"][row, position])[:, 0]
        return {
            "see": torch.stack(see).mean(),
            "say": functional.cross_entropy(
                self.say(self.kept["say"][rows, batch["say_at"]]), batch["say"]
            ),
            "name": functional.cross_entropy(
                self.name(self.kept["name"][row, position]), letter
            ),
            "mean": functional.cross_entropy(
                self.say(self.kept["name"][row, position]), concept
            ),
            "fit": functional.binary_cross_entropy_with_logits(fit, fits.float()),
        }


def _answer_loss(
    network: Qwen2_5_VLForConditionalGeneration,
    hidden: Tensor,
    batch: dict[str, Tensor],
) -> tuple[Tensor, Tensor]:
    """Loss on the answers' tokens, and whether each row's first token is right."""
    row, position, token = batch["target"].T
    logits = network.lm_head(hidden[row, position])
    loss = functional.cross_entropy(logits, token, reduction="none") * batch["weight"]
    first = torch.ones(len(row), dtype=torch.bool)
    first[1:] = row[1:] != row[:-1]
    right = (logits.argmax(-1) == token)[first]
    return loss.sum() / len(hidden), right


def _rate(done: float, since: int) -> float:
    """Learning rate as a share of its peak: warm-up, plateau, cosine."""
    decay = math.cos(math.pi / 2 * max(0.0, done - 0.4) / 0.6) ** 2
    return min(1.0, (since + 1) / 150) * (0.02 + 0.98 * decay)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a training run depends on beside its network and its bank.

    `first_step` leaves out the steps before it, to go on from a checkpoint; `scale` is
    a factor on the number of clips a batch; a log line comes every `report` steps, a
    checkpoint below `snapshots` every five lines.
    """

    stages: tuple[Stage, ...]
    seed: int = 1
    rate: float = 1e-3
    first_step: int = 0
    scale: float = 1.0
    report: int = 50
    snapshots: Path | None = None


def train(
    network: Qwen2_5_VLForConditionalGeneration,
    tokenizer: Any,
    settings: Settings,
    bank: Bank | None = None,
) -> list[dict[str, float]]:
    """Train a network in place.

    Parameters
    ----------
    network : Qwen2_5_VLForConditionalGeneration
    tokenizer : PreTrainedTokenizerFast
        From `build_tokenizer`.
    settings : Settings
    bank : Bank, optional
        Real video for the later stages.

    Returns
    -------
    log : list of dict
        Mean losses and accuracies of each `settings.report` steps.
    """
    torch.manual_seed(settings.seed)
    probes = Probes(network.train())
    parameters = [*network.parameters(), *probes.parameters()]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.05},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.98))
    n_step = sum(stage.n_step for stage in settings.stages)
    begin, sums, log = time.monotonic(), [], []
    with fast_vision():
        for since, batch in enumerate(_loader(tokenizer, settings, bank)):
            step = settings.first_step + since + 1
            for group in optimizer.param_groups:
                group["lr"] = settings.rate * _rate(step / n_step, since)
            sums.append(_step(network, probes, batch, step / n_step))
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if step % settings.report == 0:
                log.append(_log_line(step, time.monotonic() - begin, sums))
                sums = []
            if settings.snapshots and step % (5 * settings.report) == 0:
                save(network, tokenizer, settings.snapshots / f"step-{step}")
    return log


def _loader(tokenizer: Any, settings: Settings, bank: Bank | None) -> Iterable[Any]:
    """Batches, made one process ahead."""
    batches = Batches(
        Encoder(tokenizer),
        bank,
        settings.stages,
        settings.seed,
        first_step=settings.first_step,
        scale=settings.scale,
    )
    return torch.utils.data.DataLoader(
        batches, batch_size=None, num_workers=1, prefetch_factor=6
    )


def _log_line(step: int, seconds: float, sums: list[list[float]]) -> dict[str, float]:
    means = torch.tensor(sums).nanmean(0).tolist()
    rounded = [round(x, 4) for x in means]
    columns = dict(zip(_COLUMNS, rounded, strict=True))
    line = {"step": step, "seconds": round(seconds), **columns}
    print(json.dumps(line), flush=True)
    return line


_PROBES = ("see", "say", "name", "mean", "fit")
_COLUMNS = ("loss", "answer", *_PROBES, "right_video", "right_text")
_AID = {"see": 1.0, "say": 0.5, "name": 0.3, "mean": 0.3, "fit": 2.0}


def _step(
    network: Qwen2_5_VLForConditionalGeneration,
    probes: Probes,
    batch: dict[str, Tensor],
    done: float,
) -> list[float]:
    """Forward and backward pass of one batch; gives the log's columns."""
    hidden = last_hidden_states(
        network, batch["ids"], batch["patches"], batch["seconds"]
    )
    answer, right = _answer_loss(network, hidden, batch)
    part = probes.losses(batch, batch["ids"] == network.config.video_token_id)
    aid = torch.stack([_AID[name] * part[name] for name in _PROBES]).sum()
    loss = answer + (1.0 if done < 0.75 else 0.3) * aid
    loss.backward()  # type: ignore[no-untyped-call]
    video = right[batch["letter"] & ~batch["looked_up"]].float().mean()
    text = right[batch["letter"] & batch["looked_up"]].float().mean()
    return [
        x.item() for x in (loss, answer, *(part[name] for name in _PROBES), video, text)
    ]


def save(
    network: Qwen2_5_VLForConditionalGeneration, tokenizer: Any, folder: Path
) -> None:
    """Write a stock checkpoint in half precision, with tokenizer and preprocessing."""
    folder.mkdir(parents=True, exist_ok=True)
    generation: Any = network.generation_config
    generation.update(
        do_sample=False,
        max_new_tokens=16,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    dtype, network.config.dtype = network.config.dtype, torch.float16
    half = {k: v.half() for k, v in network.state_dict().items()}
    network.save_pretrained(folder, state_dict=half)
    network.config.dtype = dtype
    tokenizer.save_pretrained(folder)
    settings = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "image_mean": IMAGE_MEAN,
        "image_std": IMAGE_STD,
        "patch_size": PATCH_PX,
        "merge_size": MERGE,
        "temporal_patch_size": TEMPORAL_PATCH,
        # Qwen's own processors keep the aspect ratio, and take nothing but limits.
        "size": {
            "shortest_edge": INPUT_SIDE_PX**2,
            "longest_edge": INPUT_SIDE_PX**2,
        },
        "frame_size": {"height": INPUT_SIDE_PX, "width": INPUT_SIDE_PX},
    }
    text = json.dumps(settings, indent=2) + "\n"
    (folder / "preprocessor_config.json").write_text(text)


def main(argv: list[str] | None = None) -> None:
    """Train, save and evaluate from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the result")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--bank", type=Path, help="folder of decoded clips to (re)use")
    parser.add_argument("--bank-clips", type=int, default=900)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--snapshots", action="store_true", help="keep checkpoints")
    parser.add_argument("--resume", type=Path, help="checkpoint to go on from")
    parser.add_argument("--first-step", type=int, default=0, help="its step")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    folder = args.bank or args.out / "bank"
    build_bank(
        folder, n_clip=args.bank_clips, seed=TRAIN_BANK_SEED, side_px=INPUT_SIDE_PX
    )
    tokenizer = build_tokenizer()
    torch.manual_seed(args.seed)
    network = build_network(len(tokenizer), special_ids(tokenizer))
    if args.resume is not None:
        load = Qwen2_5_VLForConditionalGeneration.from_pretrained
        network = load(args.resume, dtype=torch.float32)
    settings = Settings(
        schedule(args.steps),
        seed=args.seed,
        first_step=args.first_step,
        snapshots=args.out if args.snapshots else None,
    )
    begin = time.monotonic()
    log = train(network, tokenizer, settings, Bank(folder, TRAIN_BANK_SEED))
    record = {
        "seed": args.seed,
        "steps": args.steps,
        "first_step": args.first_step,
        "seconds": round(time.monotonic() - begin),
        "log": log,
    }
    save(network, tokenizer, args.out)
    (args.out / "train.json").write_text(json.dumps(record, indent=1) + "\n")
    _evaluate(args.out)


def _evaluate(folder: Path) -> None:
    """Write held-out clips and measure the saved model on them and on those shipped."""
    heldout = folder / "heldout"
    write_dataset(heldout, n_clip=150, n_question=600, seed=HELD_OUT_SEED)
    files = [str(questions_path()), str(heldout / "questions.jsonl")]
    out = str(folder / "results.json")
    evaluate.main([*files, "--model", str(folder), "--out", out])


if __name__ == "__main__":
    main()
