# `make demo` sets up what it needs in .venv-demo, within a minute and without PyTorch; `make test`
# and the others set up everything in .venv.

PYTHON ?= python3

# One known torch, installed before anything that depends on it: otherwise pip picks the newest one.
# Its standard Linux build brings gigabytes of CUDA libraries; without a GPU, the CPU build is enough:
#   make test TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0

BIN := .venv/bin
READY := .venv/.ready
DEMO := .venv-demo/.ready
BROWSER := .venv/.browser

# laplace-torch pulls in torchvision, which nothing here uses. Where its build does not fit torch's
# (PyPI's against a CPU torch, for one), transformers and all that imports it would fail.
remove_torchvision = @$(1) -m pip uninstall -q -y torchvision

# Installs into the environment $(1) what $(2) names, in the versions of constraints.txt: by uv, which is
# put there where there is none, since it takes a tenth of pip's time; by pip where uv fails.
install = PATH="$$PATH:$(CURDIR)/$(1)/bin"; \
  { command -v uv || $(1)/bin/python -m pip install -q uv; } >/dev/null 2>&1; \
  uv pip install -q --python $(1)/bin/python -c constraints.txt $(2) || { \
    echo "uv did not install it; pip does, which takes minutes." >&2; \
    $(1)/bin/python -m pip install -q -c constraints.txt $(2); }

# What pip says of itself is not what a newcomer should read first.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

# Containers often set it; then each process that tests start compiles all that it imports anew, since
# uv installs no bytecode: half of the time of the tests.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: lock demo test test-all test-kernels test-ui test-engines survive coverage mutants lint build docs test-lowest test-latest tables proof screenshots

demo: $(DEMO)
	.venv-demo/bin/uec-rag demo

# What a change is tried with: three minutes on two cores.
test: $(READY)
	$(BIN)/python -m pytest -q -m "not slow and not ui" -n logical --maxprocesses 8 --dist loadfile

# Everything: after these the slow ones, one after the other, since they take the whole machine. The
# first kernel of `test-kernels` serves all of it, so that only the other one is left to run.
test-all: export OPENBLAS_CORETYPE := Haswell
test-all: KERNELS := Nehalem
test-all: test test-kernels test-ui
	$(BIN)/python -m pytest -q -m slow

# The numerical packages' tests with OpenBLAS's kernels for two kinds of processors, which every x86-64
# of today has: numbers round differently, and no test may rest on that. Other libraries ignore the
# variable, and so does OpenBLAS on other processors.
KERNELS := Haswell Nehalem
NUMERICAL := index gates retrieval evidence stores ensemble confidence clarify laplace

test-kernels: $(READY)
	for kernel in $(KERNELS); do \
	  OPENBLAS_CORETYPE=$$kernel OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q \
	    -m "not slow and not ui" -n logical --maxprocesses 8 --dist loadfile $(NUMERICAL:%=tests/%) \
	    || exit 1; \
	done

# The explorer's page and the site's in a browser, headless; where there is none, tests/server/explore/browser.sh installs it.
test-ui: $(READY) $(BROWSER)
	$(BIN)/python -m pytest -q -m ui tests/server/explore tests/test_site.py

# The tests of the stores, also on the server that QDRANT_URL names: examples/compose.yaml
# starts one.
test-engines: $(READY)
	$(BIN)/python -m pytest -q tests/stores

# The long run of tests/survival: 1,000 kills, 10,000 damaged folders, 100,000 calls and so on, for an
# hour or so. Its are in tests/survival/README.md.
survive: $(READY)
	UEC_SURVIVE=1 $(BIN)/python -m pytest -q -s tests/survival

# Lines of the core that its own packages' tests run: below the floor it fails.
CORE := base stores clarify confidence laplace ensemble evidence retrieval gates index
COVERED := 95

coverage: $(READY)
	$(BIN)/python -m pytest -q -m "not interrupts" $(CORE:%=--cov=uec_rag/%) --cov-report=term-missing:skip-covered \
	  --cov-fail-under=$(COVERED) $(CORE:%=tests/%) $(CORE:%=uec_rag/%)

# Changes one thing after the other in the modules that pyproject.toml names, and tells which of
# these changes no test of theirs notices: ten minutes. tests/survival/README.md explains those.
mutants: $(READY)
	$(BIN)/python -m pip install -q -e ".[mutation]"
	$(BIN)/python -m mutmut run
	$(BIN)/python -m mutmut results

# Types also in the lines of README and docs: an error's line is that of the page.
PAGES := build/pages
TYPED := $(PAGES) tests/wrong_keywords.py

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python -m tests.write_pages $(PAGES)
	$(BIN)/mypy --strict uec_rag $(TYPED)
	$(BIN)/basedpyright --pythonpath $(BIN)/python $(TYPED)
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.house

# The sdist, and the wheel out of it, in dist/.
build: $(READY)
	$(BIN)/python -m build

# The site of the documentation, in site/. A link that leads nowhere fails it; so does tests/test_site.py.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The newest versions that pyproject.toml allows, for every system and Python, in constraints.txt. Each
# `make` sets up with them.
lock: $(READY)
	echo "$(firstword $(TORCH))" | PATH="$$PATH:$(BIN)" uv pip compile - pyproject.toml --extra dev --universal \
	  --python-version 3.11 --upgrade --no-annotate --custom-compile-command "make lock" -q -o constraints.txt

# The tests in an environment of the lowest versions that pyproject.toml allows, and in one of the
# newest. Where CPU builds of torch are enough: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	$(PYTHON) tests/lowest_versions.py > .venv-lowest/lowest.txt
	.venv-lowest/bin/python -m pip install -q -c .venv-lowest/lowest.txt -e ".[dev]"
	$(call remove_torchvision,.venv-lowest/bin/python)
	.venv-lowest/bin/python -m pytest -q -m "not ui"

test-latest:
	$(PYTHON) -m venv .venv-latest
	.venv-latest/bin/python -m pip install -q --upgrade --upgrade-strategy eager -e ".[dev]"
	$(call remove_torchvision,.venv-latest/bin/python)
	.venv-latest/bin/python -m pytest -q -m "not ui"

# The tables of README and docs/measurements, in build/tables/: DATA is the folder of test collections,
# MANUALS that of the twelve manuals (benchmarks/quality/first_week.py says what is in it). Slow the first
# time; embeddings are kept in ~/.cache/uec_rag.
TABLE = $(BIN)/python -m benchmarks.quality
SMALL := --most 120 --passages 500
RANKED := fiqa_small,cranfield,claude_docs_rag,medline,cisi,chroma_chunking,belebele_en,tydiqa_goldp_en
RANKED := $(RANKED),squad_sample,xquad_en,xquad_ru,xquad_zh,xquad_ar,belebele_de

tables: $(READY)
	mkdir -p build/tables
	for name in decisions level multilingual conversation subject_change; do \
	  $(TABLE).$$name $(DATA) > build/tables/$$name.md || exit 1; \
	done
	$(TABLE).hybrid $(DATA) --model arctic-embed-s --shipped --sets $(RANKED) > build/tables/hybrid.md
	$(TABLE).over $(DATA) --sets claude_docs_rag,belebele_en,fiqa_small,cranfield > build/tables/over.md
	$(TABLE).gate > build/tables/gate.md
	$(TABLE).shipped_confidence $(DATA) --ensemble arctic-embed-s,bm25 $(SMALL) > build/tables/confidence.md
	$(TABLE).thresholds $(DATA) $(SMALL) > build/tables/thresholds.md
	for name in first_week advisor baselines; do \
	  $(TABLE).$$name $(MANUALS) > build/tables/$$name.md || exit 1; \
	done

# What changed since a record: decisions on the manuals, ranking, conversations, removed answers. DATA
# and MANUALS as above, the manuals as benchmarks/quality/manuals.py builds and verifies them.
BASELINE := benchmarks/results/proof/2e785473.json

proof: $(READY)
	mkdir -p build
	$(TABLE).proof $(DATA) $(MANUALS) --out build/proof.json --against $(BASELINE)

screenshots: $(READY) $(BROWSER)
	PYTHONPATH=. $(BIN)/python docs/images/explorer.py

new_enough = @$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "uec-rag needs Python 3.11 or newer, but $(PYTHON) is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name a newer one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }

# The stamps are written last: after an interruption the next run starts over, keeping what is there.
$(DEMO): pyproject.toml Makefile constraints.txt
	$(new_enough)
	@echo "Setting up .venv-demo: this takes a minute, once."
	$(PYTHON) -m venv .venv-demo
	@$(call install,.venv-demo,-e ".[documents]")
	@touch $@

# axe-core, with the rules of accessibility, lies beside the stamp.
$(BROWSER): $(READY) tests/server/explore/browser.sh
	tests/server/explore/browser.sh $(@D)
	@touch $@

# uv makes hard links to its cache, and nltk does not read the stop words that come with
# llama-index-core where they are: of that package alone they are copies.
$(READY): pyproject.toml Makefile constraints.txt
	$(new_enough)
	@echo "Setting up .venv: this takes a minute, once."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --no-deps --no-compile $(TORCH)
	@export UV_LINK_MODE=copy; $(call install,.venv,--no-deps llama-index-core)
	@$(call install,.venv,-e ".[dev]")
	$(call remove_torchvision,$(BIN)/python)
	@touch $@
