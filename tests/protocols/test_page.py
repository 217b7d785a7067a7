"""The page about protocols says what they are."""

from pathlib import Path

from phasefusion.protocols import PROTOCOLS, make_plan

PAGE = Path(__file__).parents[2] / "docs" / "protocols.md"


def test_the_table_is_that_of_the_protocols():
    text = PAGE.read_text()
    table = text.partition("<!-- protocols -->\n")[2].partition("\n<!-- end")[0]
    lines = table.splitlines()[2:]
    expected = []
    for name, protocol in PROTOCOLS.items():
        plan = make_plan(name)
        n = plan.arms[-1].share.denominator
        cost = plan.cost([4] * n)
        cells = [f"`{name}`", protocol.figure, protocol.section]
        cells += [", ".join(map(str, protocol.values))]
        least, most = f"{cost.least_passes / n:g}", f"{cost.passes / n:g}"
        cells += [most if least == most else f"{least} to {most}"]
        cells += [f"{cost.attention_units / n:g}"]
        expected.append(f"| {' | '.join(cells)} |")
    assert lines == expected
