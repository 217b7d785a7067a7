"""Reports as Markdown and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from phasefusion import _markdown
from phasefusion.report.headline import headline, title
from phasefusion.report.sections import TEXT_COLUMNS, sections


def render(numbers: Mapping[str, Any]) -> str:
    """Return the report as Markdown, sampling card included."""
    return _render("report.md.jinja", numbers, escape=False)


def render_html(numbers: Mapping[str, Any]) -> str:
    """Return the report as an HTML fragment."""
    return _render("report.html.jinja", numbers, escape=True)


def _render(template: str, numbers: Mapping[str, Any], *, escape: bool) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("phasefusion.report"),
        autoescape=escape,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["inline"] = _markdown.inline
    environment.filters["row"] = _markdown.row
    card = {name: value for name, value in numbers["card"].items() if name != "text"}
    return environment.get_template(template).render(
        title=title(numbers),
        headline=headline(numbers),
        sections=sections(numbers),
        text_columns=TEXT_COLUMNS,
        card_text=numbers["card"]["text"],
        card=orjson.dumps(card, option=orjson.OPT_INDENT_2).decode(),
    )
