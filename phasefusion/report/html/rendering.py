"""Templates filled in: style, script and data inside, so that a page is one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson


def rendered(
    template: str,
    scripts: Sequence[str],
    *,
    plots: Sequence[Mapping[str, str]] = (),
    data: Any = None,
    **values: Any,
) -> str:
    """Fill in a template of a page.

    Parameters
    ----------
    template : str
        Its name; it extends ``base.html.jinja``.
    scripts : sequence of str
        Names of scripts, which the page runs in this order and no others.
    plots : sequence of mapping
        As `drawn` returns them.
    data : optional
        JSON values for the scripts.
    **values
        What else the template names; texts are escaped.

    Returns
    -------
    str
    """
    import jinja2
    from markupsafe import Markup

    loader = jinja2.PackageLoader("phasefusion.report.html")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    parts = [loader.get_source(environment, name)[0] for name in scripts]
    script = "".join(parts)
    style, _, _ = loader.get_source(environment, "page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template(template).render(
        plots=[{**one, "svg": Markup(one["svg"])} for one in plots],  # ours
        script=Markup(script),
        style=Markup(style),
        script_hash=digest,
        data=None if data is None else Markup(inert_json(data)),
        **values,
    )


def inert_json(value: Any) -> str:
    """JSON that stays inside its script element, whatever the texts in it say."""
    text = orjson.dumps(value).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
