"""Settings shared by all tests."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import settings

# Machines under load miss deadlines without anything being wrong.
settings.register_profile("phasefusion", deadline=None)
settings.load_profile("phasefusion")


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
