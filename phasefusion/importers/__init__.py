"""Result files of other programs as phasefusion runs.

`import_run` reads the logs of harnesses, the prediction files of benchmarks, responses
of servers with log-probabilities, and plain tables, and writes a run folder that
`phasefusion.report` reads. Nothing is guessed: answers that name no option, gold that
is none, ids that collide and runs that are identical are reported, in an
`ImportReport`.
"""

from phasefusion._sources.findings import Finding
from phasefusion._sources.model import Question
from phasefusion._sources.options import (
    n_distinct_orders,
    near_match,
    order_of,
    resolve_gold,
    split_embedded,
)
from phasefusion.answers import OUTCOMES, ParsedAnswer, parse_answer
from phasefusion.importers.analysis import (
    ArmTable,
    GroupFlips,
    accuracy_by,
    arm_table,
    group_flips,
    most_probable,
)
from phasefusion.importers.checks import cannot, identical_runs
from phasefusion.importers.detect import FORMATS, Detected, detect_format
from phasefusion.importers.logprobs import LetterScores, letter_scores
from phasefusion.importers.report import ArmCounts, ImportReport
from phasefusion.importers.run import (
    Imported,
    QuestionSet,
    import_run,
    read_questions,
)

__all__ = [
    "FORMATS",
    "OUTCOMES",
    "ArmCounts",
    "ArmTable",
    "Detected",
    "Finding",
    "GroupFlips",
    "ImportReport",
    "Imported",
    "LetterScores",
    "ParsedAnswer",
    "Question",
    "QuestionSet",
    "accuracy_by",
    "arm_table",
    "cannot",
    "detect_format",
    "group_flips",
    "identical_runs",
    "import_run",
    "letter_scores",
    "most_probable",
    "n_distinct_orders",
    "near_match",
    "order_of",
    "parse_answer",
    "read_questions",
    "resolve_gold",
    "split_embedded",
]
