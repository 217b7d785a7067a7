"""What tells a changed scorer from the one before, and what must not."""

import functools
import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from phasefusion._code_hash import _is_users_file, code_hash

ROOT = Path(__file__).parents[2]


def hash_of(folder, text, name="f", **files):
    """Hash of a name in a module and its helpers, imported as a new process would."""
    names = ["mine", *(path.split("/")[0].removesuffix(".py") for path in files)]
    for module in [m for m in sys.modules if m.split(".")[0] in names]:
        del sys.modules[module]
    for path, content in {"mine.py": text, **files}.items():
        (folder / path).parent.mkdir(exist_ok=True, parents=True)
        (folder / path).write_text(textwrap.dedent(content))
    importlib.invalidate_caches()
    return code_hash(getattr(importlib.import_module("mine"), name))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in ("mine", "helpers", "pkg", "pkg.helpers"):
        sys.modules.pop(name, None)


CHANGES = {
    "a decorated function": """
        import functools
        def twice(function):
            @functools.wraps(function)
            def inner(*args):
                return function(*args)
            return inner
        @twice
        def f(v, q, o):
            return [{k} * len(x) for x in o]
    """,
    "a function behind a cache": """
        import functools
        @functools.lru_cache
        def helper(x):
            return {k} * len(x)
        def f(v, q, o):
            return [helper(x) for x in o]
    """,
    "a decorator of an installed package": """
        import contextlib
        @contextlib.contextmanager
        def f(v):
            yield {k}
    """,
    "what is defined below": """
        import phasefusion as pf
        @pf.wrap(returns="logits")
        def scorer(v, q, o):
            return [helper(x) for x in o]
        f = scorer._function
        def helper(x):
            return {k} * len(x)
    """,
    "a setting that a method of the maker sets": """
        class C:
            def __init__(self):
                self._set({k})
            def _set(self, k):
                self.k = k
            def __call__(self, v, q, o):
                return [self.k * len(x) for x in o]
        f = C()
    """,
    "a setting with the name of a local variable": """
        class C:
            def __init__(self):
                self.prompt = "{k}"
            def __call__(self, v, q, o):
                prompt = [self.prompt]
                prompt.append(q)
                return [len(x) for x in o]
        f = C()
    """,
    "a slot": """
        class C:
            __slots__ = ("k",)
            def __init__(self):
                self.k = {k}
            def __call__(self, v, q, o):
                return self.k
        f = C()
    """,
    "the address of a server": """
        ADDRESS = "http://localhost:800{k}"
        def f(v, q, o):
            return ADDRESS
    """,
    "a helper used beside thousands of texts": """
        WORDS = [str(i) for i in range(20_000)]
        def zzz(x):
            return {k} * len(x)
        def f(v, q, o):
            return [zzz(x) for x in o if x not in WORDS]
    """,
    "a settings dict": """
        settings = {{"k": {k}, "on": print}}
        def f(v, q, o):
            found = {{}}
            found[q] = settings["k"]
            return found
    """,
    "a lambda within a statement": """
        f, g = (lambda v, q, o: {k}), None
    """,
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_counts(folder, what):
    first, same, other = (hash_of(folder, CHANGES[what].format(k=k)) for k in (1, 1, 2))
    assert first is not None
    assert first == same
    assert first != other


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("def f():\n    from helpers import g\n    return g()\n", "helpers.py"),
        ("def f():\n    import helpers\n    return helpers.g()\n", "helpers.py"),
        (
            "import pkg.helpers\ndef f():\n    return pkg.helpers.g()\n",
            "pkg/helpers.py",
        ),
        (
            "from pkg import helpers\ndef f():\n    return helpers.g()\n",
            "pkg/helpers.py",
        ),
    ],
)
def test_what_is_imported_counts(folder, text, path):
    empty = {"pkg/__init__.py": ""} if "/" in path else {}
    first, same, other = (
        hash_of(folder, text, **empty, **{path: f"def g():\n    return {k}\n"})
        for k in (1, 1, 2)
    )
    assert first == same != other


UNCHANGED = {
    "counters of another object": """
        class Stats:
            n = 0
        class C:
            def __init__(self):
                self.stats = Stats()
                self.__n = 0
                self.seen = {}
            def __call__(self, v, q, o):
                self.stats.n += 1
                self.__n += 1
                self.seen[q] = len(o)
                return [self.total for x in o]
            @functools.cached_property
            def total(self):
                return 3
        f = C()
    """,
    "caches of helpers": """
        counts, model = {}, None
        def count(q):
            counts[q] = counts.get(q, 0) + 1
        def load():
            global model
            model = 7
        def f(v, q, o):
            count(q)
            load()
            return [model * len(x) + 0 * counts[q] for x in o]
    """,
    "a list in a closure": """
        def make():
            calls = []
            def f(v, q, o):
                calls.append(q)
                return [len(x) for x in o]
            return f
        f = make()
    """,
}


@pytest.mark.parametrize("what", UNCHANGED)
def test_use_changes_nothing(folder, what):
    first = hash_of(folder, "import functools\n" + textwrap.dedent(UNCHANGED[what]))
    f = sys.modules["mine"].f
    f(None, "?", ["a", "b"])
    assert first == code_hash(f)


PROCESS = """
import sys, enum
from pathlib import Path
class Key:
    pass
class C:
    def __init__(self, place):
        self.place = Path(place)
        self.folder = place
        self.words = {"one", "two", "three", ("four", 5)}
        self.known = {Key(): 1, len: 2}
        self.device = "cuda:%s" % place[-1]
    def __call__(self, v, q, o):
        return len(o) in {1, 2, 3} or q in {"what", "where", "who"}
from phasefusion._code_hash import code_hash
print(code_hash(C(sys.argv[1])))
"""


def test_other_processes_and_machines_find_the_same(tmp_path):
    found = set()
    for seed in "012":
        script = tmp_path / seed / "script.py"
        script.parent.mkdir()
        script.write_text("\n" * int(seed) + PROCESS)
        done = subprocess.run(
            [sys.executable, str(script), f"/scratch/node{seed}/model"],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_the_code_that_runs_counts_not_its_file(folder):
    text = "def f(v, q, o):\n    return {k}\n"
    first = hash_of(folder, text.format(k=1))
    running = sys.modules["mine"].f
    (folder / "mine.py").write_text(text.format(k=2))
    assert code_hash(running) == first
    assert hash_of(folder, "# why\n\n" + text.format(k=1)) == first
    assert (
        hash_of(folder, text.format(k=1).replace("):", '):\n    """Why."""')) == first
    )


class Odd:
    """Raises when it is looked at."""

    __slots__ = ("__dict__", "a")

    def __init__(self):
        self.next = None
        self.large = 10**5000

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __call__(self, v, q, o):
        return self.next


def test_odd_objects_do_no_harm():
    first = Odd()
    last = first
    for _ in range(3000):  # no recursion
        last.next = Odd()
        last = last.next
    loop = []
    loop += [loop] * 6
    first.loop = loop
    first.numbers = [0.5] * 2_000_000
    assert code_hash(first) is not None
    assert code_hash(functools.partial(first, k=loop)) is not None


def test_modules_of_torch_count_by_weights_and_settings():
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def __init__(self, k, seed):
            super().__init__()
            torch.manual_seed(seed)
            self.k = k
            self.inner = torch.nn.Linear(2, 3)

        @torch.inference_mode()
        def score(self, clip, question, options, *, orders=None):
            return self.k * self.inner(clip)

    found = {code_hash(Model(*made)) for made in ((1, 0), (2, 0), (1, 5))}
    assert len(found) == 3
    assert code_hash(Model(1, 0)) in found
    assert code_hash(Model(2, 0).score) != code_hash(Model(1, 0).score)

    odd = (torch.nn.LazyLinear(3), torch.ones(2) * 1j, torch.ones(3, device="meta"))
    assert len({code_hash(functools.partial(Model(1, 0).score, k)) for k in odd}) == 3


def test_whose_files_are_whose(tmp_path):
    assert _is_users_file(str(tmp_path / "mine.py"))
    assert _is_users_file("<ipython-input-1>")
    for place in (".local/lib/python3.12/site-packages/x.py", "dist-packages/x.py"):
        assert not _is_users_file(str(tmp_path / place))
    assert not _is_users_file(functools.__file__)
    assert not _is_users_file(str(ROOT / "phasefusion" / "grid.py"))
