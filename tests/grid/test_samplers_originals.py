"""Samplers against the expressions and the functions that they reproduce."""

from __future__ import annotations

import ast
import importlib.util
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasefusion import _core, samplers

Original = Callable[[int, int], Any]


SPREAD = (1, 2, 3, 4, 5, 7, 8, 14, 16, 22, 31, 32, 33, 48, 63, 64)
ALL = tuple(range(1, 65))
# Python loops that need no more than a spread of budgets to be told apart.
SLOW = {"internvl", "interior", "longvideobench", "lmms-append-last"}


def cases(budgets: tuple[int, ...], n_drawn: int) -> Iterator[tuple[int, int]]:
    """Every clip up to 600 frames with the given budgets, then longer ones."""
    for n in range(1, 601):
        for b in budgets:
            yield n, b
    rng = np.random.default_rng(20261129)
    for _ in range(n_drawn):
        n = int(rng.integers(1, 10 ** rng.integers(3, 9)))
        yield n, int(rng.integers(1, 1200))
    for n in (200_000, 200_003, 1_000_000, 16_777_215, 2**24 + 3, 2**31 - 1):
        for b in (1, 2, 96, 100, 192, 256, 768):
            yield n, b


def internvl_get_index(n: int, b: int) -> Any:
    seg = float(n - 1) / b
    return np.array([int(0 + (seg / 2) + np.round(seg * i)) for i in range(b)])


def vlmeval_interior(n: int, b: int) -> Any:
    step = n / (b + 1)
    return [int(i * step) for i in range(1, b + 1)]


def lmms_append(n: int, b: int) -> Any:
    found = np.linspace(0, n - 1, b, dtype=int).tolist()
    return found if n - 1 in found else [*found, n - 1]


NUMPY: dict[str, Original] = {
    "left": lambda n, b: np.arange(b, dtype=int) * n // b,
    "midpoint": lambda n, b: (2 * np.arange(b, dtype=int) + 1) * n // (2 * b),
    "endpoint-trunc": lambda n, b: np.linspace(0, n - 1, b, dtype=int),
    "endpoint-round": lambda n, b: np.linspace(0, n - 1, b).round().astype(int),
    "hf-qwen3-vl": lambda n, b: np.linspace(0, n - 1, b).round().astype(int),
    "interior": vlmeval_interior,
    "internvl": internvl_get_index,
    "longvideobench": lambda n, b: [int(n / b) * i for i in range(b)],
    "vila": lambda n, b: np.linspace(0, n - 2, b, dtype=int),
    "lmms-pyav": lambda n, b: np.linspace(0, n - 1, min(n, b), dtype=int),
    "lmms-append-last": lmms_append,
}


def same(name: str, original: Original, n_drawn: int) -> int:
    """Compare on every case; the number of cases that the original refuses."""
    sampler = samplers.get(name)
    refused = 0
    for n, b in cases(SPREAD if name in SLOW else ALL, n_drawn):
        try:
            want = np.asarray(original(n, b))
        except (ValueError, ZeroDivisionError):
            with pytest.raises(ValueError, match=r"refuses|divides by zero"):
                sampler.indices(n, b)
            refused += 1
            continue
        found = sampler.indices(n, b)
        assert found.dtype == np.int64
        assert np.array_equal(found, want), (n, b)
    return refused


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_originals(name: str) -> None:
    assert same(name, NUMPY[name], 300) == 0


# ------------------------------------------------------------------- torch


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch")
    if module.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        pytest.skip("torch without fused multiply-add rounds twice")
    return module


def test_kernels_equal_torch(torch: Any) -> None:
    # The samplers make every budget even; the kernels are for odd ones too. The middle
    # of an odd count is where a half can go either way.
    odd = [(n, b) for n in range(1, 40) for b in range(3, 400, 2)]
    for n, b in [*cases(ALL, 2000), *odd]:
        want = torch.linspace(0, n - 1, b).round().long().numpy()
        assert np.array_equal(_core.sampler_torch_linspace(n - 1, b), want), (n, b)
        want = torch.arange(0, n, n / b).int().numpy()
        assert np.array_equal(_core.sampler_torch_arange(0, n, n / b), want), (n, b)


def even(b: int) -> int:
    return round(b / 2) * 2


def test_qwen_vl_utils(torch: Any) -> None:
    def original(n: int, b: int) -> Any:
        if not 2 <= even(b) <= n:
            raise ValueError
        return torch.linspace(0, n - 1, even(b)).round().long().numpy()

    assert same("qwen-vl-utils", original, 4000) > 100


def test_hf_qwen2_vl(torch: Any) -> None:
    def original(n: int, b: int) -> Any:
        if even(b) > n:
            raise ValueError
        return torch.arange(0, n, n / even(b)).int().numpy()

    assert same("hf-qwen2-vl", original, 4000) > 100


def test_hf_internvl(torch: Any) -> None:
    def original(n: int, b: int) -> Any:
        if b > n:
            raise ValueError
        return torch.arange(n / b / 2, n, n / b).int().numpy()

    assert same("hf-internvl", original, 4000) > 100


# ------------------------------------------------------------ transformers


def method_of(file: str, name: str, **defaults: Any) -> Original:
    """A function of the installed transformers, compiled from its file.

    Importing the module would need torchvision, which none of these functions uses.
    """
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        pytest.skip("transformers is not installed")
    torch = pytest.importorskip("torch")
    path = Path(spec.origin).parent / file
    if not path.exists():
        pytest.skip(f"this transformers has no {file}")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            break
    else:
        pytest.skip(f"this transformers has no {name}")
    node.decorator_list = []
    node.returns = None
    for arg in node.args.args:
        arg.annotation = None
    names: dict[str, Any] = {"torch": torch, "np": np, "math": math}
    exec(compile(ast.Module([node], []), str(path), "exec"), names)
    owner = [SimpleNamespace(**defaults)] if defaults else []

    def call(n: int, b: int) -> Any:
        metadata = SimpleNamespace(total_num_frames=n, fps=25.0, duration=n / 25.0)
        return names[name](*owner, metadata=metadata, num_frames=b, fps=None, **extra)

    extra = {"initial_shift": True} if "internvl" in file else {}
    return call


def processor(model: str) -> str:
    return f"models/{model}/video_processing_{model}.py"


def test_installed_transformers(torch: Any) -> None:
    none: dict[str, Any] = {"num_frames": None, "fps": None, "temporal_patch_size": 2}
    none |= {"min_frames": 4, "max_frames": 768, "initial_shift": True}
    originals = {
        "hf-default": method_of("video_utils.py", "default_sample_indices_fn"),
        "hf-qwen2-vl": method_of(processor("qwen2_vl"), "sample_frames", **none),
        "hf-qwen3-vl": method_of(processor("qwen3_vl"), "sample_frames", **none),
        "hf-internvl": method_of(processor("internvl"), "sample_frames", **none),
    }
    refused = {name: same(name, call, 300) for name, call in originals.items()}
    assert refused["hf-qwen3-vl"] == 0
    assert min(refused[name] for name in originals if name != "hf-qwen3-vl") > 100


# ------------------------------------------------------------ frame rates


def rates(n_drawn: int) -> Iterator[tuple[int, int, float, float]]:
    rng = np.random.default_rng(11)
    named = [10, 23.976, 24000 / 1001, 24, 25, 29.97, 30, 59.94, 60]
    for _ in range(n_drawn):
        n = int(rng.integers(1, 10 ** rng.integers(1, 6)))
        fps = float(rng.choice([*named, rng.uniform(4, 60)]))
        target = float(rng.choice([0.5, 1.0, 2.0, 3.0]))
        yield n, int(rng.integers(1, 800)), fps, target


def test_llava_video() -> None:
    sampler = samplers.get("llava-video")
    for n, b, fps, target in rates(3000):
        stride = round(fps / target)
        want = list(range(0, n, stride))
        if len(want) > b:
            want = np.linspace(0, n - 1, b, dtype=int).tolist()
        assert sampler.indices(n, b, fps, target_fps=target).tolist() == want
    assert sampler.indices(95, 8, 30).tolist() == [0, 30, 60, 90]
    assert sampler.indices(95, 2, 30).tolist() == [0, 94]
    with pytest.raises(ValueError, match=r"stride round\(fps / 3\.0\) is 0"):
        sampler.indices(95, 2, 1.2, target_fps=3)


def test_vlmeval_fps() -> None:
    sampler = samplers.get("vlmeval-fps")
    for n, b, fps, target in rates(3000):
        step = fps / target
        want = [int(i * step) for i in range(int(n / fps * target))]
        assert sampler.indices(n, b, fps, target_fps=target).tolist() == want


def test_qwen_vl_utils_by_rate(torch: Any) -> None:
    sampler = samplers.get("qwen-vl-utils-fps")
    refused = 0
    for n, b, fps, target in rates(3000):
        most = math.floor(b / 2) * 2
        wanted = min(min(max(n / fps * target, 4), most), n)
        even_frames = math.floor(wanted / 2) * 2
        if not 2 <= even_frames <= n:
            refused += 1
            with pytest.raises(ValueError, match="qwen-vl-utils refuses"):
                sampler.indices(n, b, fps, target_fps=target)
            continue
        want = torch.linspace(0, n - 1, even_frames).round().long().numpy()
        assert np.array_equal(sampler.indices(n, b, fps, target_fps=target), want)
    assert refused > 0
