"""The reference of the documentation: every public name and command is in it."""

import importlib
import importlib.util
import pkgutil
from pathlib import Path

import pytest

import phasefusion

pytest.importorskip("typer")
FILE = Path(__file__).parents[1] / "docs" / "_reference.py"
#: Modules without a leading underscore that are a command line's own.
OF_COMMANDS = {"cli", "info", "progress"}


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("docs_reference", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(reference, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    try:
        reference.write(folder)
    except ImportError as error:  # a part that is not installed
        pytest.skip(str(error))
    return folder


def test_every_public_module_has_a_page(reference):
    listed = {name for names in reference.MODULES.values() for name in names}
    there = {m.name for m in pkgutil.iter_modules(phasefusion.__path__)}
    public = {name for name in there if not name.startswith("_")} - OF_COMMANDS
    assert listed == public


def test_every_name_of_the_package_is_on_a_page(reference, pages):
    page = (pages / "api.md").read_text()
    for name, home in phasefusion._HOME.items():
        assert f"`{name} <phasefusion.{home}.{name}>`" in page
        documented = (pages / "api" / f"{home}.md").read_text().splitlines()
        assert f".. autofunction:: {name}" in documented or (
            f".. autoclass:: {name}" in documented
        ), f"phasefusion.{home} does not list {name}"


def test_every_class_and_function_of_a_list_of_names(reference, pages):
    for names in reference.MODULES.values():
        for name in names:
            module = importlib.import_module(f"phasefusion.{name}")
            page = (pages / "api" / f"{name}.md").read_text().splitlines()
            assert f".. automodule:: phasefusion.{name}" in page
            for one in reference._documented(module):
                assert f"   {one}" in page


def test_every_command_and_option(pages):
    import typer

    from phasefusion.cli import app

    text = (pages / "commands.md").read_text()

    def look(command, name):
        for word, inner in getattr(command, "commands", {}).items():
            if inner.hidden:
                continue
            assert f" {name} {word}\n" in text
            look(inner, f"{name} {word}")
            if hasattr(inner, "commands"):
                continue
            section = text.split(f" {name} {word}\n", 1)[1].split("\n#", 1)[0]
            for one in inner.params:
                if getattr(one, "hidden", False) or one.param_type_name == "argument":
                    continue
                assert all(f"`{option}`" in section for option in one.opts)

    look(typer.main.get_command(app), "phasefusion")


def test_marks_in_a_help_text_are_not_taken_for_markdown(reference):
    said = reference._text("<id> is a_b or *, [x]; the file of --draft|-o, no-op --")
    assert said == r"\<id> is a\_b or \*, \[x]; the file of `--draft`\|-o, no-op --"
