"""Settings shared by all tests."""

from __future__ import annotations

import functools
import math
import shutil
import time

import pytest
from hypothesis import settings
from hypothesis.errors import HypothesisException

# Machines under load miss deadlines without anything being wrong; and a change is not
# refused for what another draw of examples would have found before: --properties looks
# for that.
settings.register_profile("phasefusion", deadline=None, derandomize=True)
settings.load_profile("phasefusion")

_EXAMPLES = 20_000
_END = pytest.StashKey[float]()


def pytest_addoption(parser):
    parser.addoption(
        "--properties",
        type=int,
        metavar="SECONDS",
        help="only tests of properties, each on new random examples for so long",
    )


def pytest_collection_modifyitems(config, items):
    if config.getoption("properties") is None:
        return
    config.hook.pytest_deselected(items=[i for i in items if not is_property(i)])
    items[:] = filter(is_property, items)
    for test in {getattr(item.obj, "__func__", item.obj) for item in items}:
        test._hypothesis_internal_use_settings = settings(
            getattr(test, "_hypothesis_internal_use_settings", None),
            max_examples=_EXAMPLES,
            derandomize=False,
            database=None,
        )
        test.hypothesis.inner_test = timed(config, test.hypothesis.inner_test)


def is_property(item):
    return hasattr(getattr(item, "obj", None), "hypothesis")


def pytest_runtest_setup(item):
    limit_s = item.config.getoption("properties")
    if limit_s is not None:
        item.config.stash[_END] = time.monotonic() + limit_s


def timed(config, test):
    """Skip what is left of a test's examples when its time is up."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        try:
            test(*args, **kwargs)
        except HypothesisException:
            raise
        except Exception:
            config.stash[_END] = math.inf  # the least example of it is looked for
            raise
        if time.monotonic() > config.stash[_END]:  # all that is drawn has been
            pytest.skip("nothing found in the time that there was")

    return run


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by Playwright; skips without."""
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with playwright.sync_playwright() as driver:
        try:
            made = driver.chromium.launch(
                executable_path=chromium, args=["--no-sandbox"]
            )
        except playwright.Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]}")
        yield made
        made.close()


@pytest.fixture
def open_page(browser):
    """Open a file; afterwards fail on errors, console messages and other requests."""
    said, asked, contexts = [], [], []

    def opened(path, **options):
        context = browser.new_context(
            viewport={"width": 1200, "height": 900}, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []
    assert [u for u in asked if not u.startswith(("file:", "data:"))] == []
