# `make demo` and `make test` set everything up by themselves, in .venv.

PYTHON ?= python3

# One known torch, installed before anything that depends on it: otherwise pip picks the newest one.
# Its standard Linux build brings gigabytes of CUDA libraries; without a GPU, the CPU build is enough:
#   make test TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0

BIN := .venv/bin
READY := .venv/.ready

# laplace-torch pulls in torchvision, which nothing here uses. Where its build does not fit torch's
# (PyPI's against a CPU torch, for one), transformers and all that imports it would fail.
remove_broken_torchvision = @$(1) -c "import torchvision" 2>/dev/null || $(1) -m pip uninstall -q -y torchvision

.PHONY: demo test test-engines survive coverage mutants lint build test-lowest test-latest figures

demo: $(READY)
	$(BIN)/uec-rag demo

test: $(READY)
	$(BIN)/python -m pytest -q

# The tests of the stores, also on the servers that QDRANT_URL and POSTGRES_DSN name:
# examples/engines/compose.yaml starts both.
test-engines: $(READY)
	$(BIN)/python -m pytest -q tests/stores tests/retrieval/test_published.py

# The long run of tests/survival: 1,000 kills, 10,000 damaged folders, 100,000 calls and so on, for an
# hour or so. Its figures are in docs/reliability.md.
survive: $(READY)
	UEC_SURVIVE=1 $(BIN)/python -m pytest -q -s tests/survival

# Lines of the core that its own rooms' tests run: below the floor it fails.
CORE := base stores confidence laplace ensemble retrieval
COVERED := 95

coverage: $(READY)
	$(BIN)/python -m pytest -q -m "not interrupts" $(CORE:%=--cov=uec_rag/%) --cov-report=term-missing:skip-covered \
	  --cov-fail-under=$(COVERED) $(CORE:%=tests/%) $(CORE:%=uec_rag/%)

# Changes one thing after the other in the modules that pyproject.toml names, and tells which of
# these changes no test of theirs notices: ten minutes. docs/reliability.md explains those.
mutants: $(READY)
	$(BIN)/python -m pip install -q -e ".[mutation]"
	$(BIN)/python -m mutmut run
	$(BIN)/python -m mutmut results

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict uec_rag

# The sdist, and the wheel out of it, in dist/.
build: $(READY)
	$(BIN)/python -m build

# The tests in an environment of the lowest versions that pyproject.toml allows, and in one of the
# newest. Where CPU builds of torch are enough: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	$(PYTHON) tests/lowest_versions.py > .venv-lowest/lowest.txt
	.venv-lowest/bin/python -m pip install -q -c .venv-lowest/lowest.txt -e ".[dev]"
	$(call remove_broken_torchvision,.venv-lowest/bin/python)
	.venv-lowest/bin/python -m pytest -q

test-latest:
	$(PYTHON) -m venv .venv-latest
	.venv-latest/bin/python -m pip install -q --upgrade --upgrade-strategy eager -e ".[dev]"
	$(call remove_broken_torchvision,.venv-latest/bin/python)
	.venv-latest/bin/python -m pytest -q

# The pictures in docs/images.
figures: $(READY)
	$(BIN)/python docs/images/draw.py

# The stamp is written last: after an interruption the next run starts over, keeping what is there.
$(READY): pyproject.toml Makefile
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "uec-rag needs Python 3.11 or newer, but $(PYTHON) is: $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name a newer one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up .venv: this takes a few minutes, once."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install $(TORCH)
	$(BIN)/python -m pip install -q $(firstword $(TORCH)) -e ".[dev]"
	$(call remove_broken_torchvision,$(BIN)/python)
	@touch $@
