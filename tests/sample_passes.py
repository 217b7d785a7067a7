"""A run description and passes for the record tests."""

RUN = {
    "settings": {"budget": 8, "orders": {"kind": "shared", "n": 10}},
    "versions": {"phasefusion": "0.1.0"},
    "command": ["phasefusion", "run"],
}


def make_pass(number, **changes):
    return {
        "question_id": f"q{number}",
        "benchmark": "set",
        "video_id": "clip",
        "n_options": 3,
        "gold": 0,
        "arm": "phase",
        "shifted": False,
        "budget": 8,
        "n_phases": 3,
        "phase": [1, 6],
        "phase_index": 0,
        "order": [2, 0, 1],
        "logprobs": [-0.5, -1.5, -2.5],
        "answer": 2,
        "an_unknown_field": {"kept": True},
    } | changes
