"""The processors of transformers, where they are installed; tests skip where not.

Pictures have classes on Pillow and on torchvision, videos on torchvision alone. Their
modules have one name in transformers 4 and another in 5.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings

import numpy as np
import pytest


def module(name):
    """A module of transformers' models, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(f"transformers.models.{name}")
    except (ImportError, RuntimeError, AttributeError):
        return None


def find(file, name):
    pytest.importorskip("transformers", reason="compares with transformers")
    found = getattr(module(file), name, None)
    if found is None:
        pytest.skip(f"this transformers has no {name} that can be imported here")
    return found


def pil_class(model, name):
    """A picture processor whose pixels are Pillow's and NumPy's."""
    if is_version_4():
        return find(f"{model}.image_processing_{model}", name)
    return find(f"{model}.image_processing_pil_{model}", f"{name}Pil")


def is_version_4():
    transformers = pytest.importorskip(
        "transformers", reason="compares with transformers"
    )
    return transformers.__version__.startswith("4.")


def needs_torchvision():
    pytest.importorskip("transformers", reason="compares with transformers")
    try:
        tolerate_missing_operators()
        importlib.import_module("torchvision")
    except Exception as error:
        pytest.skip(f"these processors need torchvision: {error}")


def tolerate_missing_operators():
    """Let a torchvision built for CUDA be imported beside a torch built for the CPU.

    It describes operators that are not there, of which transforms need none.
    """
    library = importlib.import_module("torch.library")
    register = library.register_fake
    if getattr(register, "tolerant", False):
        return

    def tolerant(op, func=None, /, **options):
        def attempt(fake):
            with contextlib.suppress(RuntimeError):
                register(op, fake, **options)
            return fake

        return attempt if func is None else attempt(func)

    tolerant.tolerant = True
    library.register_fake = tolerant


def video_class(model, name):
    needs_torchvision()
    return find(f"{model}.video_processing_{model}", name)


def run_video(processor, frames):
    """Its output for one clip, as NumPy arrays."""
    torch = pytest.importorskip("torch")
    clip = torch.from_numpy(np.array(frames.transpose(0, 3, 1, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = processor([clip], return_tensors="pt", do_sample_frames=False)
    return {key: value.numpy() for key, value in out.items()}
