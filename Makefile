# The environment lives in .venv; every target sets it up first if need be.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Evaluation data, for the tests on real sets and the benchmarks; without it these are left out.
SEN2PRO_DATA ?= $(abspath $(wildcard ../shared/data))
export SEN2PRO_DATA

.DEFAULT_GOAL := help
.PHONY: help setup demo test fuzz lint format docs bench clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## Create .venv and install the package and the laboratory with all that development needs

$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[offline,plot,mteb,search,postgres,qdrant,langchain,llamaindex,haystack,ray,server,page,dev]' --editable ./lab
	@touch $@

demo: $(READY) ## Run the main job on the embedded default model: a table and a picture
	$(BIN)/sen2pro demo

test: $(READY) ## Run the whole test suite
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4

fuzz: $(READY) ## Try 100,000 malformed files and arguments, and print what came of them (a quarter of an hour)
	PYTHONPATH=tests $(BIN)/python -m fuzz --cases 100000

lint: $(READY) ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY) ## Format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY) ## Build the documentation site in build/site
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/python lab/results/page.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	SEN2PRO_SITE=build/site $(BIN)/python -m pytest --quiet tests/test_docs.py -k elsewhere

bench: $(READY) ## Measure cost, quality of variances, search and server: JSON, plots (needs SEN2PRO_DATA; hours)
	$(BIN)/python -m sen2pro_lab.benchmarks.startup
	$(BIN)/python -m sen2pro_lab.benchmarks.speed
	$(BIN)/python -m sen2pro_lab.benchmarks.scale kills
	$(BIN)/python -m sen2pro_lab.benchmarks.scale cost
	$(BIN)/python -m sen2pro_lab.benchmarks.variance_quality
	$(BIN)/python -m sen2pro_lab.benchmarks.search
	$(BIN)/python -m sen2pro_lab.benchmarks.server

clean: ## Delete the environment and all caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
