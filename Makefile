# `make demo` and `make test` set everything up by themselves, in .venv.

PYTHON ?= python3

# One known torch, installed before anything that depends on it: otherwise pip picks the newest one.
# Its standard Linux build brings gigabytes of CUDA libraries; without a GPU, the CPU build is enough:
#   make test TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0

BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint figures

demo: $(READY)
	$(BIN)/uec-rag demo

test: $(READY)
	$(BIN)/python -m pytest -q

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict uec_rag

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
# laplace-torch pulls in torchvision, which nothing here uses. Where its build does not fit torch's
# (PyPI's against a CPU torch, for one), transformers and all that imports it would fail.
	@$(BIN)/python -c "import torchvision" 2>/dev/null || $(BIN)/python -m pip uninstall -q -y torchvision
	@touch $@
