"""Exceptions and warnings; every message names the argument, the value, the remedy."""

from __future__ import annotations


class PhaseFusionError(Exception):
    """Base of every error that phasefusion raises on purpose.

    What it is made of are the parts of its message: texts, and arguments that a command
    names as its options.
    """

    def __str__(self) -> str:
        return "".join(map(str, self.args))


class UsageError(PhaseFusionError, ValueError):
    """An argument that cannot be, whatever is in the file."""


class GridError(PhaseFusionError, ValueError):
    """A frame grid that cannot be: budget, phases, origin or clip length."""


class VideoError(PhaseFusionError, RuntimeError):
    """A file that holds no decodable video, or a wanted frame that does not decode."""


class FrameError(PhaseFusionError, ValueError):
    """Frames or sizes that cannot be resized or normalised."""


class OptionError(PhaseFusionError, ValueError):
    """Answer options or option orders that cannot be scored."""


class PosteriorError(PhaseFusionError, ValueError):
    """Log-probabilities or posteriors that are not what they must be."""


class ScoringError(PhaseFusionError, RuntimeError):
    """A model or tokenizer that cannot score options the way that was asked."""


class QuestionError(ScoringError):
    """One question that a model cannot be asked, where others may be fine."""


class StatisticsError(PhaseFusionError, ValueError):
    """Data for which a statistic is not defined."""


class DatasetError(PhaseFusionError, ValueError):
    """A question file that cannot be read; the message names the file and the item."""


class RecordError(PhaseFusionError, RuntimeError):
    """A run folder that cannot be read, continued or written."""


class HistoryError(PhaseFusionError, RuntimeError):
    """A history of batches that cannot be read or written; names the file."""


class AuditError(PhaseFusionError, ValueError):
    """A claims file that cannot be used; names the file, the line and the claim."""


class BackendUnavailableError(PhaseFusionError, RuntimeError):
    """An optional part (FFmpeg, torch, CUDA) that is not there; says how to get it."""


class DeviceMemoryError(PhaseFusionError, MemoryError):
    """The memory of a GPU is full."""


class DeviceError(PhaseFusionError, RuntimeError):
    """A GPU refused or broke in the middle of work; says which call, and why."""


class PhaseFusionWarning(UserWarning):
    """Base of every warning that phasefusion gives."""


class FrameCountWarning(PhaseFusionWarning):
    """Header and scan disagree about the number of frames: the phase moves."""


class DamagedFrameWarning(PhaseFusionWarning):
    """Frames that do not decode soundly were kept because the caller asked for it."""


class DuplicateFrameWarning(PhaseFusionWarning):
    """The clip is shorter than the grid, so frames repeat."""


class GridWarning(PhaseFusionWarning):
    """A grid that does not do what it seems to, such as a shift onto itself."""


class OptionWarning(PhaseFusionWarning):
    """Options that were merged or cleaned, or scores that look like something else."""


class DatasetWarning(PhaseFusionWarning):
    """Questions of a dataset that were left out, or whose right answer is not known."""


class FallbackWarning(PhaseFusionWarning):
    """A slower or less exact path was taken."""


class NoAnswerWarning(PhaseFusionWarning):
    """Not one pass of a run has an answer, so that there is nothing to report."""


class WorkerWarning(PhaseFusionWarning):
    """A worker of a run died or was stopped; what it had not finished is done again."""


class RecordWarning(PhaseFusionWarning):
    """A run folder whose last line was torn by a crash and is made again."""
