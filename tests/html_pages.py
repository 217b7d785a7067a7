"""What a page looks like in the browser."""

import io

import numpy as np
import pytest


def pixels(page, **options):
    image = pytest.importorskip("PIL.Image")
    shot = image.open(io.BytesIO(page.screenshot(**options))).convert("RGB")
    return np.asarray(shot, int)
