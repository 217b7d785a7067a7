# Everything a user or a contributor runs. Each target sets up what it needs, says what
# it does, and is quick when run again.
PYTHON ?= python3
VENV ?= .venv
PY = $(VENV)/bin/python
# The package itself, with extras. What a build backend warns of is not the user's doing.
INSTALL = PHASEFUSION_WERROR= PYTHONWARNINGS=ignore $(PY) -m pip install -q \
    --disable-pip-version-check --no-build-isolation -c constraints.txt
CACHE = .cache
C_FILES = $(wildcard csrc/*/*.c csrc/*/*.h)
DEVICE_CODE = $(wildcard csrc/cuda/*.cu)
ALL_C = $(C_FILES) $(DEVICE_CODE) $(wildcard tests/c/*.c tests/c/*.h tests/emu/*.cpp tests/emu/*.h)

.PHONY: help demo test setup lint format sanitize fuzz properties bench studies soak notebooks docs wheel test-wheel clean

help:
	@echo "make demo       set up, run the shipped model on the shipped clips, show the report"
	@echo "make test       set up, run the tests"
	@echo "make setup      system packages (apt), virtual environment, build"
	@echo "make lint       ruff, mypy, stubtest, clang-format, a build with -Werror"
	@echo "make format     rewrite Python and C files in the project's style"
	@echo "make sanitize   plain-C tests and the Python tests under ASan and UBSan"
	@echo "make fuzz       any bytes through decoder, subtitles, resize, each for SECONDS (60)"
	@echo "make properties tests of properties on random examples, each for SECONDS (60)"
	@echo "make bench      every goal of speed and memory, into README and docs/performance.md;"
	@echo "                exit 1 where one is missed; ONLY=\"resize stats\" for some of them"
	@echo "make studies    what the methods do, into their pages; ONLY=coverage for one of them"
	@echo "make soak       thousands of hostile videos, faults, readers, gigabytes: a quarter of an hour"
	@echo "make notebooks  execute the notebooks in place"
	@echo "make docs       the documentation as HTML, warnings are errors, into $(CACHE)/docs"
	@echo "make wheel      the abi3 wheel with FFmpeg inside, and the source archive, into dist/"
	@echo "make test-wheel try it in clean environments of each of PYTHONS"
	@echo "make clean      remove what was built, the virtual environment too"

demo: setup
	@$(VENV)/bin/phasefusion demo

test: setup
	@$(PY) -m pytest

setup: $(VENV)/.built

$(VENV)/.system: .ci/system-packages.sh
	@echo "setup: looking for the system packages"
	@PYTHON=$(PYTHON) sh .ci/system-packages.sh
	@mkdir -p $(VENV) && touch $@

$(VENV)/.packages: $(VENV)/.system pyproject.toml constraints.txt
	@echo "setup: Python packages into $(VENV) (a few minutes the first time)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -q --disable-pip-version-check -U pip "setuptools>=77" "numpy>=2.0" wheel
	@$(INSTALL) -e ".[hf,dev]"
	@touch $@

$(VENV)/.built: $(VENV)/.packages setup.py $(C_FILES) $(DEVICE_CODE)
	@echo "setup: building the extension modules"
	@mkdir -p $(CACHE)
	@$(PY) setup.py -q build_ext --inplace > $(CACHE)/build.log 2>&1 || \
	    { cat $(CACHE)/build.log; echo "setup: the build failed, see above"; exit 1; }
	@touch $@

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(PY) -m mypy.stubtest --mypy-config-file pyproject.toml \
	    phasefusion._core phasefusion._cuda phasefusion._frames phasefusion._video
	$(VENV)/bin/clang-format --dry-run -Werror $(ALL_C)
	@echo "lint: building with every warning an error"
	@PHASEFUSION_WERROR=1 $(PY) setup.py -q build_ext --build-lib $(CACHE)/werror \
	    --build-temp $(CACHE)/werror > $(CACHE)/werror.log 2>&1 || \
	    { cat $(CACHE)/werror.log; exit 1; }

format: setup
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(ALL_C)

# The package is built a second time, into $(CACHE), with the sanitizers compiled in;
# the interpreter gets their run-time library by LD_PRELOAD. Leaks are looked for in the
# plain-C tests, where no interpreter hides them.
SANITIZED = $(CACHE)/sanitize
sanitize: setup
	$(PY) -m pytest tests/test_c.py
	@echo "sanitize: building the modules with ASan and UBSan"
	@PHASEFUSION_SANITIZE=1 $(PY) setup.py -q build --build-lib $(SANITIZED)/lib \
	    --build-temp $(SANITIZED)/temp > $(CACHE)/sanitize.log 2>&1 || \
	    { cat $(CACHE)/sanitize.log; exit 1; }
	PYTHONPATH=$(SANITIZED)/lib PHASEFUSION_UNDER_ASAN=1 PYTHONMALLOC=malloc \
	    LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
	    ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 \
	    UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	    $(VENV)/bin/pytest --ignore=tests/test_c.py

# Every harness tests/c/fuzz_NAME.c runs for SECONDS, on what lies in
# $(CACHE)/fuzz/NAME and on its seeds; it is built from its stages and from base.
# Seeds are copied, or made by tests/clips/seeds.py as far as there is an ffmpeg program.
SECONDS ?= 60
FUZZERS ?= resize subtitle video
FUZZ = $(CACHE)/fuzz
FFMPEG = $$(pkg-config --cflags --libs libavformat libavcodec libavutil libswscale)
FUZZ_STAGES_resize = frames
FUZZ_STAGES_subtitle = video frames
FUZZ_STAGES_video = video frames
FUZZ_LIBRARIES_subtitle = $(FFMPEG)
FUZZ_LIBRARIES_video = $(FFMPEG)
FUZZ_SEEDS_video = phasefusion/tinyvlm/clips/clip-00*.mp4
FUZZ_MADE = subtitle video
# no magic numbers in there, so nothing to learn from each comparison but time
FUZZ_FLAGS_resize = -fno-sanitize-coverage=trace-cmp
FUZZ_OPTIONS_resize = -max_len=64 -len_control=0
FUZZ_OPTIONS_subtitle = -max_len=20000 -timeout=25 -rss_limit_mb=3000
FUZZ_OPTIONS_video = -max_len=100000 -timeout=25 -rss_limit_mb=3000
fuzz: $(FUZZERS:%=fuzz-%)

fuzz-%: setup
	@command -v clang >/dev/null || { echo "fuzz: needs clang with its run-time" \
	    "library: apt-get install clang libclang-rt-14-dev"; exit 1; }
	@mkdir -p $(FUZZ)/$*
	$(if $(FUZZ_SEEDS_$*),@cp -n $(FUZZ_SEEDS_$*) $(FUZZ)/$*)
	$(if $(filter $*,$(FUZZ_MADE)),@$(PY) tests/clips/seeds.py $* $(FUZZ)/$*)
	clang -g -O2 -ffp-contract=off -fsanitize=fuzzer,address,undefined \
	    -fno-sanitize-recover=undefined $(FUZZ_FLAGS_$*) -Icsrc tests/c/fuzz_$*.c \
	    $(wildcard $(foreach stage,$(FUZZ_STAGES_$*) base,csrc/$(stage)/*.c)) \
	    -o $(FUZZ)/fuzz_$* -lm -pthread $(FUZZ_LIBRARIES_$*)
	$(FUZZ)/fuzz_$* $(FUZZ_OPTIONS_$*) -max_total_time=$(SECONDS) \
	    $(addprefix -dict=,$(wildcard tests/c/fuzz_$*.dict)) \
	    -artifact_prefix=$(FUZZ)/$*- $(FUZZ)/$*

# make test draws the same examples every time.
properties: setup
	$(PY) -m pytest --properties $(SECONDS) -rfE

# The peers that can be installed here are measured too. What was found is kept in
# benchmarks/results, and put into README and docs/performance.md.
$(VENV)/.peers: $(VENV)/.built
	@echo "bench: Python packages to compare with"
	@$(INSTALL) -e ".[hf,dev,bench]"
	@touch $@

bench: setup $(VENV)/.peers
	@$(PY) benchmarks/bench.py $(ONLY) $(ROUNDS:%=--rounds %)

# Each study writes the tables of its own page; none has a goal of speed.
STUDIES = adaptive agreement anchors coverage many_workers order_training
PAGE_adaptive = adaptive
PAGE_agreement = why-frames-differ
PAGE_anchors = anchors
PAGE_coverage = coverage
PAGE_many_workers = capacity
PAGE_order_training = studies
studies: $(addprefix study-,$(or $(ONLY),$(STUDIES)))

study-%: setup $(VENV)/.peers
	@test -n "$(PAGE_$*)" || { echo "no study $*; there are: $(STUDIES)"; exit 1; }
	@echo "== benchmarks/$*.py, into docs/$(PAGE_$*).md"
	@$(PY) benchmarks/$*.py --write docs/$(PAGE_$*).md

# Not a benchmark, and not of every change: QUICK=--quick takes seconds, and leaves the
# table in the docs as it is.
soak: setup
	$(PY) benchmarks/soak.py $(or $(QUICK),--write docs/robustness.md)

# The weights and clips of the second notebook come in packages. The third runs where
# lmms-eval is installed as well (docs/harnesses.md).
$(VENV)/.notebooks: $(VENV)/.built
	@echo "notebooks: Python packages with real weights and clips"
	@$(INSTALL) -e ".[hf,dev,notebooks]"
	@touch $@

$(VENV)/.docs: $(VENV)/.built
	@echo "docs: Sphinx and what it needs"
	@$(INSTALL) -e ".[hf,dev,docs]"
	@touch $@

docs: setup $(VENV)/.docs
	@echo "docs: some minutes the first time, for every public name has a page"
	$(PY) -m sphinx -q -W --keep-going -b html docs $(CACHE)/docs
	@echo "docs: $(CACHE)/docs/index.html"

notebooks: setup $(VENV)/.notebooks
	@$(PY) tests/run_notebooks.py notebooks/*.ipynb

# FFmpeg and dav1d are built from Debian's source packages, once, into $(WHEEL); the wheel
# then runs without any FFmpeg on the machine (docs/wheels.md).
JOBS ?= 2
WHEEL = $(CACHE)/wheel
WHEEL_BIN = $(CURDIR)/$(WHEEL)/venv/bin
$(WHEEL)/venv/.packages: tools/wheel/requirements.txt
	@echo "wheel: what builds and checks it, into $(WHEEL)/venv"
	@$(PYTHON) -m venv $(WHEEL)/venv
	@$(WHEEL_BIN)/python -m pip install -q --disable-pip-version-check -r $<
	@touch $@

wheel: $(WHEEL)/venv/.packages
	@sh tools/wheel/sources.sh $(WHEEL)/sources
	@MESON=$(WHEEL_BIN)/meson NINJA=$(WHEEL_BIN)/ninja \
	    sh tools/wheel/libraries.sh $(WHEEL)/sources $(WHEEL)/libraries $(JOBS)
	@PATH="$(WHEEL_BIN):$$PATH" $(WHEEL_BIN)/python tools/wheel/wheel.py \
	    --sources $(WHEEL)/sources --libraries $(WHEEL)/libraries --out dist

# Clean environments of every interpreter in PYTHONS, against what is built here.
PYTHONS ?= $(PYTHON)
test-wheel: setup
	@$(PY) tests/wheel/try_wheel.py dist/*.whl $(WHEEL)/try --with $(PYTHONS)

clean:
	rm -rf $(VENV) $(CACHE) build dist *.egg-info phasefusion/*.so phasefusion/cuda/kernels docs/reference
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
