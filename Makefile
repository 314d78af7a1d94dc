# Two commands on a fresh machine with Python >= 3.11 and make:  `make demo`  and  `make test`.
# Each sets up what it needs in a virtual environment of its own (.venv; .venv-oldest for `make test-oldest`,
# .venv-comparison and .venv-fairgbm for `make bench-comparison`).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet
PYTEST := $(BIN)/python -m pytest
IN_PARALLEL := -n auto --maxprocesses 4 --dist worksteal
SEED := $(or $(SEED),$(shell date +%s))
APT := env DEBIAN_FRONTEND=noninteractive apt-get -qq

.PHONY: help demo chromium test quick-tests lint coverage test-slow test-oldest bench reproduce bench-comparison clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("partialfair needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + "; name another with make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV) || { echo "could not create a virtual environment; on Debian: apt-get install python3-venv"; rm -rf $(VENV); exit 1; }

# The stamps remember which set of packages is installed; pyproject.toml and paper/pyproject.toml are the lists.
$(VENV)/.demo: $(BIN)/python pyproject.toml
	@echo "installing partialfair[cli] into $(VENV) ..."
	@$(PIP) -e '.[cli]'
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml paper/pyproject.toml
	@echo "installing partialfair[dev] and partialfair-paper into $(VENV) ..."
	@$(PIP) -e '.[dev]' -e ./paper
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo ## the main job on made data: models before and after, what it costs; pictures and a page in demo/
	@$(BIN)/partialfair demo --out demo

lint: $(VENV)/.dev ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The names that tests/browser looks for. Package lists are fetched only where those at hand do not do.
chromium: ## the browser that tests of pages need, where apt-get and the right to use it are there
	@for name in chromium chromium-browser google-chrome; do ! command -v $$name >/dev/null || exit 0; done; \
	test "$$(id -u)" = 0 && as_root= || as_root="sudo -n"; \
	install="$$as_root $(APT) install --yes --no-install-recommends chromium"; \
	if command -v apt-get >/dev/null && $$as_root true 2>/dev/null; then \
		echo "installing chromium ..."; \
		{ $$install || { $$as_root $(APT) update; $$install; }; } </dev/null >/dev/null 2>&1 && exit 0; \
	fi; \
	echo "chromium is missing and could not be installed: the tests of pages will be skipped"

# At the same time: the installation of packages and of the browser, then the linters and the tests.
test: ## lint, and every test but the slow ones
	@$(MAKE) --no-print-directory --jobs=2 lint chromium quick-tests

quick-tests: $(VENV)/.dev chromium
	$(PYTEST) -m "not slow" $(IN_PARALLEL)

coverage: $(VENV)/.dev chromium ## the same tests with branch coverage, in twice the time
	$(PYTEST) -m "not slow" $(IN_PARALLEL) --cov --cov-report=term

# Both runs take place whatever comes of the first. Tests that measure seconds have the machine to themselves.
test-slow: $(VENV)/.dev chromium ## the tests that take minutes, and more, random examples of all properties (SEED=1234)
	@echo "random examples are those of seed $(SEED): make test-slow SEED=$(SEED) draws them again"
	$(PYTEST) -m "slow and not alone" --hypothesis-profile=thorough --hypothesis-seed=$(SEED) $(IN_PARALLEL); \
	first=$$?; $(PYTEST) -m "slow and alone" && exit $$first

test-oldest: ## every test but the slow ones on the oldest supported versions (tests/oldest.txt)
	@test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	@.venv-oldest/bin/python -m pip install --quiet -c tests/oldest.txt -e '.[cli]' -e ./paper pytest hypothesis polars lightgbm xgboost-cpu
	.venv-oldest/bin/python -m pytest -m "not slow"

bench: $(VENV)/.dev ## the benchmarks; tables in benchmarks/results/
	$(BIN)/python benchmarks/solvers.py
	@$(PIP) -e '.[comparison]'
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/path.py
	$(BIN)/python benchmarks/outside.py
	$(BIN)/python benchmarks/price.py
	$(BIN)/python benchmarks/many_groups.py
	$(BIN)/python benchmarks/bound_coverage.py
	$(BIN)/python benchmarks/paired_and_chosen.py
	$(BIN)/python benchmarks/population.py
	$(BIN)/python benchmarks/optimality.py
	$(BIN)/python benchmarks/stability.py
	$(BIN)/python benchmarks/trees.py
	$(BIN)/python benchmarks/startup.py

reproduce: $(VENV)/.dev ## the paper's figures and tables, in an hour on two cores; build/results/report.html
	$(BIN)/partialfair reproduce all --jobs 2 --report --out build/results

# Peers whose licence or size keeps them out of the other environments, and FairGBM, which needs an older scikit-learn.
bench-comparison: ## the benchmarks beside other libraries: solvers, trees, quantile matching; tables in benchmarks/results/
	@test -x .venv-comparison/bin/python || $(PYTHON) -m venv .venv-comparison
	@.venv-comparison/bin/python -m pip install --quiet -e . -r benchmarks/peers.txt
	@test -x .venv-fairgbm/bin/python || $(PYTHON) -m venv .venv-fairgbm
	@.venv-fairgbm/bin/python -m pip install --quiet -r benchmarks/fairgbm.txt
	.venv-comparison/bin/python benchmarks/peers.py
	.venv-comparison/bin/python benchmarks/tree_peers.py
	.venv-comparison/bin/python benchmarks/adjuster.py

clean: ## remove what the other targets made
	rm -rf .venv .venv-oldest .venv-comparison .venv-fairgbm demo build dist .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
