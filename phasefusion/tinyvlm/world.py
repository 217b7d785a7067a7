"""Seeded procedural clips: a moving shape, still shapes, and a border that flashes.

A `Scene` holds every number that a clip depends on, so that any frame is a pure
function of (scene, index). Times are fractions of the clip. An eighth of a clip is one
step of the 8-frame grid; flashes last 0.3 to 1.6 of such steps, so that a grid catches
or misses them by its phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "COLOURS",
    "MOVES",
    "SHAPES",
    "Flash",
    "Scene",
    "Still",
    "border_colour",
    "mover_centre",
    "render",
    "sample_scene",
]

#: Nominal colours; neighbours in this order are easily mistaken for each other.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (215, 45, 45),
    "orange": (235, 130, 40),
    "yellow": (230, 215, 60),
    "green": (50, 170, 80),
    "blue": (60, 95, 230),
    "purple": (140, 60, 195),
    "pink": (240, 135, 190),
    "white": (238, 238, 238),
}
SHAPES = ("circle", "square", "triangle", "cross", "diamond")
MOVES: dict[str, tuple[int, int]] = {
    "left": (-1, 0),
    "right": (1, 0),
    "up": (0, -1),
    "down": (0, 1),
    "nowhere": (0, 0),
}
N_GRID = 8
_NOISE_PX = 224
_N_NOISE = 32


@dataclass(frozen=True, slots=True)
class Flash:
    """One flash of the border, from `begin` to `end` in fractions of the clip."""

    colour: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Still:
    """A shape that rests in a corner; lengths are fractions of the frame's side."""

    shape: str
    colour: str
    radius: float
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything a clip depends on; lengths are fractions of the frame's side."""

    n_frames: int
    fps: int
    seed: int
    shape: str
    colour: str
    move: str
    radius: float
    start: tuple[float, float]
    travel: float
    opacity: float
    tint: tuple[int, int, int]
    background: tuple[float, float, float]
    texture: float
    noise: float
    border: float
    border_opacity: float
    flashes: tuple[Flash, ...] = ()
    stills: tuple[Still, ...] = ()

    @property
    def duration_s(self) -> float:
        """Length of the clip in seconds."""
        return self.n_frames / self.fps


def _sample_flashes(rng: np.random.Generator, n_flash: int) -> tuple[Flash, ...]:
    """Place flashes with at least 1.05 steps between them, edges kept free."""
    if n_flash == 0:
        return ()
    gap = 1.05
    lasting = rng.uniform(0.3, (1.6, 1.6, 1.5, 1.1, 0.72)[n_flash - 1], n_flash)
    free = N_GRID - 0.1 - lasting.sum() - gap * (n_flash - 1)
    cuts = np.sort(rng.uniform(0, free, n_flash))
    begin = 0.05 + cuts + gap * np.arange(n_flash) + np.cumsum(lasting) - lasting
    names = list(COLOURS)
    colours = [names[i] for i in rng.permutation(len(names))[:n_flash]]
    if n_flash > 1 and rng.random() < 0.35:
        colours = colours[:1] * n_flash
    return tuple(
        Flash(c, float(t / N_GRID), float((t + d) / N_GRID))
        for c, t, d in zip(colours, begin, lasting, strict=True)
    )


def _sample_stills(
    rng: np.random.Generator, shapes: list[str], colours: list[str]
) -> tuple[Still, ...]:
    """Put no, one or two small still shapes in the corners."""
    n_still = int(rng.choice([0, 0, 1, 1, 2]))
    corners = rng.permutation(4)
    stills = []
    for i in range(n_still):
        radius = float(rng.uniform(0.05, 0.075))
        near, far = 0.12 + radius, 0.88 - radius
        x, y = (near, far)[corners[i] % 2], (near, far)[corners[i] // 2]
        stills.append(Still(shapes[i + 1], colours[i + 1], radius, x, y))
    return tuple(stills)


def sample_scene(rng: np.random.Generator, *, n_flash: int | None = None) -> Scene:
    """Draw a scene.

    Parameters
    ----------
    rng : Generator
        The only source of chance.
    n_flash : int, optional
        Number of border flashes, 0 to 5; drawn when not given.

    Returns
    -------
    scene : Scene
    """
    if n_flash is None:
        n_flash = int(rng.choice(6, p=[0.06, 0.3, 0.26, 0.2, 0.1, 0.08]))
    fps = int(rng.choice([24, 25, 30]))
    names = list(COLOURS)
    colours = [names[i] for i in rng.permutation(len(names))]
    shapes = [SHAPES[i] for i in rng.permutation(len(SHAPES))]
    move = list(MOVES)[rng.integers(len(MOVES))]
    direction = np.array(MOVES[move], float)
    radius = float(rng.uniform(0.1, 0.19))
    low, high = 0.1 + radius, 0.9 - radius
    travel = float(rng.uniform(0.15, high - low)) if move != "nowhere" else 0.0
    middle = rng.uniform(
        low + np.abs(direction) * travel / 2,
        high - np.abs(direction) * travel / 2 + 1e-9,
    )
    start = middle - direction * travel / 2
    faint = rng.random() < 0.4
    base = float(rng.uniform(20, 95))
    return Scene(
        n_frames=int(rng.integers(6 * fps, 14 * fps + 1)),
        fps=fps,
        seed=int(rng.integers(1 << 31)),
        shape=shapes[0],
        colour=colours[0],
        move=move,
        radius=radius,
        start=(float(start[0]), float(start[1])),
        travel=travel,
        opacity=float(rng.uniform(0.3, 0.6) if faint else rng.uniform(0.6, 1.0)),
        tint=tuple(int(x) for x in rng.integers(-18, 19, 3)),  # type: ignore[arg-type]
        background=tuple(base + float(x) for x in rng.uniform(-9, 9, 3)),  # type: ignore[arg-type]
        texture=float(rng.uniform(0, 28)),
        noise=float(rng.uniform(0, 5)),
        border=float(rng.uniform(0.035, 0.09)),
        border_opacity=float(rng.uniform(0.4, 1.0)),
        flashes=_sample_flashes(rng, n_flash),
        stills=() if move == "nowhere" else _sample_stills(rng, shapes, colours),
    )


def _when(scene: Scene, index: int) -> float:
    """Middle of a frame, as a fraction of the clip."""
    return (index + 0.5) / scene.n_frames


def mover_centre(scene: Scene, index: int) -> tuple[float, float]:
    """Centre of the moving shape in a frame, in fractions of the side."""
    dx, dy = MOVES[scene.move]
    way = scene.travel * _when(scene, index)
    return scene.start[0] + dx * way, scene.start[1] + dy * way


def border_colour(scene: Scene, index: int) -> str | None:
    """Colour that the border shows in a frame, or None."""
    when = _when(scene, index)
    return next((f.colour for f in scene.flashes if f.begin <= when < f.end), None)


@lru_cache(maxsize=4)
def _noise_tiles(side_px: int) -> NDArray[np.float32]:
    """Unit-range noise tiles, shape (32, side, side, 1), the same in every process."""
    rng = np.random.default_rng(20)
    tiles = rng.uniform(-1, 1, (_N_NOISE, _NOISE_PX, _NOISE_PX, 1)).astype(np.float32)
    return np.ascontiguousarray(tiles[:, :side_px, :side_px])


def _inside(shape: str, x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[Any]:
    """Signed distance to the outline in radii, positive inside, roughly."""
    ax, ay = np.abs(x), np.abs(y)
    inside: NDArray[Any]
    if shape == "circle":
        inside = 1 - np.hypot(x, y)
    elif shape == "square":
        inside = 0.86 - np.maximum(ax, ay)
    elif shape == "triangle":
        inside = np.minimum(0.85 - y, ((y + 1) * 0.54 - ax) * 0.88)
    elif shape == "cross":
        upright = np.minimum(0.3 - ax, 1 - ay)
        inside = np.maximum(upright, np.minimum(0.3 - ay, 1 - ax))
    else:
        inside = (1 - ax - ay) * 0.7
    return inside


def _tinted(scene: Scene, colour: str) -> NDArray[np.float32]:
    return np.clip(np.array(COLOURS[colour]) + scene.tint, 0, 255).astype(np.float32)


def _draw(
    frame: NDArray[np.float32],
    shape: str,
    rgb: NDArray[np.float32],
    opacity: float,
    place: tuple[float, float, float],
) -> None:
    """Blend a shape with soft edges over a frame; `place` is (x, y, radius)."""
    side = frame.shape[0]
    cx, cy, radius = (v * side for v in place)
    x0, x1 = max(0, int(cx - radius) - 1), min(side, int(cx + radius) + 2)
    y0, y1 = max(0, int(cy - radius) - 1), min(side, int(cy + radius) + 2)
    x = ((np.arange(x0, x1, dtype=np.float32) + 0.5 - cx) / radius)[None, :]
    y = ((np.arange(y0, y1, dtype=np.float32) + 0.5 - cy) / radius)[:, None]
    cover = np.clip(_inside(shape, x, y) * radius + 0.5, 0, 1) * opacity
    patch = frame[y0:y1, x0:x1]
    patch += cover[..., None].astype(np.float32) * (rgb - patch)


def _backdrop(scene: Scene, side_px: int) -> NDArray[np.float32]:
    """Background with a smooth static texture and the still shapes."""
    rng = np.random.default_rng(scene.seed)
    knots = rng.uniform(-scene.texture, scene.texture, (7, 7)).astype(np.float32)
    at = (np.arange(side_px) + 0.5) / side_px * 6
    left = at.astype(int)
    weight = np.zeros((side_px, 7), np.float32)
    weight[np.arange(side_px), left] = 1 - (at - left)
    weight[np.arange(side_px), left + 1] = at - left
    smooth = weight @ knots @ weight.T
    colour = np.array(scene.background, np.float32)
    frame = (smooth[..., None] + colour).astype(np.float32, copy=False)
    for s in scene.stills:
        _draw(frame, s.shape, _tinted(scene, s.colour), 0.9, (s.x, s.y, s.radius))
    return frame


def render(
    scene: Scene, indices: NDArray[np.integer] | range, *, side_px: int = 224
) -> NDArray[np.uint8]:
    """Render frames of a scene.

    Parameters
    ----------
    scene : Scene
    indices : sequence of int
        Frame indices, each in [0, scene.n_frames).
    side_px : int, default 224
        Width and height of the frames, at most 224.

    Returns
    -------
    frames : ndarray, shape (len(indices), side_px, side_px, 3), uint8
        Each frame depends on the scene and its own index alone.
    """
    backdrop, tiles = _backdrop(scene, side_px), _noise_tiles(side_px)
    rgb = _tinted(scene, scene.colour)
    edge = max(1, round(scene.border * side_px))
    out = np.empty((len(indices), side_px, side_px, 3), np.uint8)
    for slot, index in zip(out, indices, strict=True):
        frame = backdrop.copy()
        place = (*mover_centre(scene, int(index)), scene.radius)
        _draw(frame, scene.shape, rgb, scene.opacity, place)
        colour = border_colour(scene, int(index))
        if colour is not None:
            inner = frame[edge:-edge, edge:-edge].copy()
            frame += scene.border_opacity * (_tinted(scene, colour) - frame)
            frame[edge:-edge, edge:-edge] = inner
        if scene.noise:
            frame += scene.noise * tiles[(scene.seed + 7 * int(index)) % _N_NOISE]
        np.clip(frame + 0.5, 0, 255, out=frame)
        slot[:] = frame
    return out
