# The environment lives in .venv; every target installs what it needs first. Two stamps say how much is installed:
# the library with what the demo needs, or all packages of development too.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
FULL := $(VENV)/.full
EXTRAS := offline,plot,mteb,search,postgres,qdrant,langchain,llamaindex,haystack,ray,server,page,dev
# Modules are compiled when they are first imported: pip would compile thousands that nothing here uses.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt
# Evaluation data, for the tests on real sets and the benchmarks; without it these are left out.
SEN2PRO_DATA ?= $(abspath $(wildcard ../shared/data))
export SEN2PRO_DATA
# The tests of the core, and those of one file per room.
FAST := tests/test_gaussian.py tests/test_distances.py tests/test_model.py tests/test_settings.py tests/test_rooms.py \
  tests/sampling tests/estimation/test_estimation.py tests/encoder/test_vocabulary.py tests/io/test_inputs.py \
  tests/calibration/test_report.py tests/classification/test_classification_heads.py tests/search/test_search.py \
  tests/jobs/test_encode_files.py tests/server/test_server_batching.py tests/integrations/test_vectorizer.py \
  tests/test_laboratory_commands.py tests/contract/test_encode.py

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast fuzz lint format docs bench clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(FULL) ## Create .venv and install the library and the laboratory with all that development needs

$(DEMO): pyproject.toml constraints.txt
	@echo "Installing the library, its default model and matplotlib in $(VENV); torch is most of it (2 to 3 minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --progress-bar on --editable '.[offline,plot]'
	@touch $@

$(FULL): pyproject.toml lab/pyproject.toml constraints.txt
	@echo "Installing the library and the laboratory with all that development needs in $(VENV) (5 to 8 minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --progress-bar on --editable '.[$(EXTRAS)]' --editable ./lab
	@touch $(DEMO) $@

demo: $(DEMO) ## Run the main job on the embedded default model: a table and a picture
	@echo "Encoding a dozen sentences ..."
	@$(BIN)/sen2pro demo

test: $(FULL) ## Run the whole test suite (10 minutes on two cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4

test-fast: $(FULL) ## Run the tests of the core and one test per room (a minute)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet --numprocesses 2 -m 'not slow' $(FAST)

fuzz: $(FULL) ## Try 100,000 malformed files and arguments, and print what came of them (a quarter of an hour)
	PYTHONPATH=tests $(BIN)/python -m fuzz --cases 100000

lint: $(FULL) ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(FULL) ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(FULL) ## Build the documentation site in build/site
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/python lab/results/page.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	SEN2PRO_SITE=build/site $(BIN)/python -m pytest --quiet tests/test_docs.py -k elsewhere

bench: $(FULL) ## Measure cost, quality of variances, search and server: JSON, plots (needs SEN2PRO_DATA; hours)
	$(BIN)/python -m sen2pro_lab.benchmarks.startup
	$(BIN)/python -m sen2pro_lab.benchmarks.speed
	$(BIN)/python -m sen2pro_lab.benchmarks.scale kills
	$(BIN)/python -m sen2pro_lab.benchmarks.scale cost
	$(BIN)/python -m sen2pro_lab.benchmarks.variance_quality
	$(BIN)/python -m sen2pro_lab.benchmarks.search
	$(BIN)/python -m sen2pro_lab.benchmarks.server

clean: ## Delete the environment and all caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
