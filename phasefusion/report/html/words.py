"""What the words of the page mean, for its headings and for its fold of words."""

from __future__ import annotations

from collections.abc import Sequence

_ARMS = {
    "single": "One pass over the frames of one grid, as such models are usually used.",
    "phase": "The passes over one of the offset grids: all grids have as many frames, "
    "each begins a part of a step later than the one before.",
    "fusion": "The posteriors of the phases, averaged for each option order on its "
    "own.",
    "vote": "The plurality of the answers of the phases, for each option order on its "
    "own.",
    "union": "One pass over the frames of all phases together.",
    "dense": "One pass over a grid of more frames.",
}


def columns(main: str, has_phases: bool) -> dict[str, str]:
    """Explain the headings of the table of questions.

    Parameters
    ----------
    main : str
        The arm whose answer stands for a question.
    has_phases : bool
        Whether the run has passes of phases, and not of one grid only.

    Returns
    -------
    dict of str to str
        By the name of the column, in their order.
    """
    flips = (
        "Share of the phases whose answer another option order changes. It is about "
        f"the phases one by one, not about {main}."
        if has_phases
        else f"100 where another option order changes the answer of {main}, else 0."
    )
    return {
        "question": "Id and text of the question.",
        "type": "What the question file calls its kind.",
        "gold": "The right answer, as the question file has it.",
        "answer": f"The consensus of {main}: the option that {main} chooses in most "
        "of the option orders. This is the answer that counts.",
        "right": "Whether that answer is the right one.",
        "orders right, %": f"Share of the option orders in which {main} is right, "
        "whatever the consensus is.",
        "phase flips": "Whether the consensus answers of the phases differ.",
        "order flips, %": flips,
        "half step": f"Whether the consensus of {main} changes when its grid moves by "
        "half a step. The overview has the rate of every arm.",
        "margin": "Of the answer shown: the log of its posterior over that of the "
        f"best other option, in nats, with the posteriors of {main} averaged over the "
        "option orders. Below 0 that mean prefers another option than most orders do.",
    }


def words(
    main: str, arms: Sequence[str], has_half_step: bool
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Explain everything that the page says and a newcomer has not met.

    Parameters
    ----------
    main : str
        The arm whose answer stands for a question.
    arms : sequence of str
        Those of the run.
    has_half_step : bool

    Returns
    -------
    list of (str, list of (str, str))
        Groups of words, each with what it means.
    """
    has_phases = any(arm.startswith("phase ") for arm in arms)
    there = dict.fromkeys("phase" if arm.startswith("phase ") else arm for arm in arms)
    general = [
        ("arm", "A way to answer a question from passes, listed below."),
        ("pass", "One question scored once: one choice of frames, one option order."),
        ("option order", "One way to deal the options of a question to the letters."),
        ("posterior", "Probabilities of the options alone, which add up to 100 %."),
        (
            "consensus",
            "Of an arm: the option that most of its answers over the option orders "
            "have; ties go to the greater mean posterior.",
        ),
    ]
    if main == "fusion":
        general.append(
            (
                "fused over phases and orders",
                "The posteriors of all phases and orders, averaged. Its greatest "
                "option is usually the consensus and need not be: an average weighs "
                "how sure every order is, a plurality counts orders alike.",
            )
        )
    general.append(
        ("accuracy, mean over orders", "Share of the orders that are answered right."),
    )
    general.append(
        ("accuracy, consensus", "Share of the questions whose consensus is right."),
    )
    general.append(
        (
            "margin",
            "Log of the posterior of an answer over that of the next best option, in "
            "nats: 0.7 is twice as likely. Plots and tables are of the first option "
            "order, the column of the table of questions of the answer shown there.",
        ),
    )
    if has_half_step:
        general.append(
            (
                "half step",
                "An arm scored again on its grid moved by half of its own step, or by "
                "half a dense step for an even number of phases.",
            )
        )
    found = [("Words", general)]
    known = [(arm, _ARMS[arm]) for arm in there if arm in _ARMS]
    if known:
        found.append(("Arms", known))
    headings = columns(main, has_phases)
    found.append(("Columns of the table of questions", list(headings.items())))
    return found
