"""The commands of the application, and words that each of them accepts."""

import typer

from phasefusion.cli import app


def leaves():
    """All commands that do something, by their words."""
    found = {}

    def walk(command, words):
        inner = getattr(command, "commands", {})
        for word, one in inner.items():
            walk(one, (*words, word))
        if not inner or command.invoke_without_command:
            found[" ".join(words)] = command

    walk(typer.main.get_command(app), ())
    return found


def groups():
    """The commands that hold others, with the application itself."""
    root = typer.main.get_command(app)
    inner = root.commands.items()
    return {"": root} | {word: one for word, one in inner if hasattr(one, "commands")}


#: Words behind each command that make it do its work; RUN, RUN2, QUESTIONS, VIDEO and
#: PASSES stand for what the test has made, NEW for a path where nothing is.
WORDS = {
    "audit": "stableeval",
    "calibrate": "RUN",
    "capacity": "QUESTIONS --like RUN",
    "compare": "RUN RUN2",
    "demo": "--limit 1 --out NEW",
    "frames": "VIDEO --out NEW.png",
    "gate": "RUN RUN2",
    "info": "",
    "merge": "RUN --out NEW",
    "monitor add": "NEW RUN --at 2026-11-30",
    "monitor show": "HISTORY",
    "plan": "--from RUN",
    "plan auroc": "--auroc 0.8 --positive 50 --half-width 0.05",
    "plan difference": "--rates 18 10 --both 6",
    "plan equivalence": "--discordance 14",
    "plan floor": "--upper 1",
    "plan interval": "--rate 60 --half-width 3",
    "plan risk": "--risk 10",
    "protocols": "",
    "questions": "QUESTIONS",
    "records check": "RUN",
    "records convert": "RUN NEW.csv",
    "records describe": "RUN",
    "records export": "RUN --anonymous --out NEW",
    "records import": "auto PREDICTIONS --out NEW",
    "records merge": "RUN RUN2 --out NEW",
    "records reparse": "RUN",
    "records simulate": "--n-videos 2 --out NEW",
    "report": "RUN",
    "run": "QUESTIONS --scorer pixel_scorer:make --limit 1 --out NEW",
    "saliency": "RUN --scorer pixel_scorer:make",
    "samplers": "--frames 100",
}
