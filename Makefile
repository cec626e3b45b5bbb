# Two commands are all that a fresh machine needs: `make demo` and `make test`. What is merged passes `make test-all`.
# Needed beforehand: Python >= 3.11 (or PYTHON=/path/to/it), Java >= 17 and make.

PYTHON ?= python3
KEEP ?=
LIMIT ?=
WORKERS ?= 4
SHARE ?= 1/1
SIMULATE_S ?=
SIMULATE_FROM ?=

VENV := .venv
BIN := $(VENV)/bin
# Most tests on a real Kafka wait most of the time, so there are more workers than a small machine has cores.
# Those of one `xdist_group` run one after the other.
PYTEST = SIMULATE_S=$(SIMULATE_S) SIMULATE_FROM=$(SIMULATE_FROM) $(BIN)/python -m pytest --numprocesses $(WORKERS) --no-loadscope-reorder
UV = VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv

# Tests and demos start hundreds of Python processes: where an image sets this, each would compile Airflow anew.
unexport PYTHONDONTWRITEBYTECODE

# What pip's environment says about indexes and certificates holds for uv as well.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
endif
ifdef PIP_CERT
export SSL_CERT_FILE ?= $(PIP_CERT)
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

.PHONY: help
help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: need venv ## Show a failover on real parts; KEEP=1 leaves all up, LIMIT=s is how long it may take
	@$(BIN)/python -m airflow_provider.demo $(if $(filter-out 0 no false,$(KEEP)),--keep) $(if $(LIMIT),--limit $(LIMIT))

.PHONY: down
down: venv ## End what `make demo KEEP=1` left up
	@$(BIN)/python -m airflow_provider.demo down

.PHONY: test test-all
test: need lint types archives ## Lint, types, and all tests but the long ones; WORKERS=n runs n tests at a time, SIMULATE_S=s fresh schedules for s seconds
	$(PYTEST) -m "not long and not hosts and not schedules and not browser" tests

test-all: need lint types archives ## The long tests too; SHARE=1/3 runs the first third of them
	$(PYTEST) -m "not hosts and not schedules and not browser" --share $(SHARE) tests

# --- What has to be there first. One line, before anything else, when it is not. ---

.PHONY: need need-python need-java
need: need-python need-java

need-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python >= 3.11 is needed, found $$($(PYTHON) --version 2>/dev/null || echo nothing) as '$(PYTHON)':" \
	       "install it, or name another with PYTHON=/path/to/python3." >&2; exit 2; }

need-java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	found="$$("$$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1)"; \
	[ "$${found:-0}" -ge 17 ] || { \
	  echo "Java >= 17 is needed, found $${found:-nothing} as '$$java':" \
	       "install a Java runtime and put it on PATH or name it in JAVA_HOME." >&2; exit 2; }

# --- The environment ---

.PHONY: venv jars archives lock
venv: $(VENV)/.ready ## Make the virtual environment from the lock

# uv comes out of the lock too, hash and all, and installs the rest several times faster than pip. Where it
# cannot reach what pip can (a setting that only pip reads), pip does it.
$(VENV)/.ready: requirements.lock pyproject.toml | need-python
	@echo "Installing $$(grep -c '^[a-z0-9].*==' requirements.lock) packages into $(VENV): half a minute, or some minutes the first time"
	@test ! -L $(VENV) || { echo "$(VENV) is a link to $$(readlink $(VENV)), which others use too: remove the link first." >&2; exit 2; }
	@$(PYTHON) -m venv --clear $(VENV)
	@awk '/^uv==/ {take = 1} take {print} take && !/\\$$/ {exit}' requirements.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r $(VENV)/uv.lock
	$(UV) pip install --quiet --no-deps --require-hashes --build-constraints requirements.lock -r requirements.lock || \
	  $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements.lock
	$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

jars: need venv ## Resolve Spark's Kafka connector and Kafka's broker into the user's cache
	@$(BIN)/python -m airflow_provider.jars

archives: jars ## Archive the classes that JVMs of tests load, so that they start with half the work
	@$(BIN)/python -m tests.class_archive

lock: venv ## Resolve requirements.lock again (hashes, no host)
	$(UV) pip compile pyproject.toml --quiet --universal --python-version 3.11 --all-extras --upgrade \
	  --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	  --output-file requirements.lock
	$(UV) pip compile $(OBJECT_STORE).in --quiet --universal --python-version 3.11 --upgrade \
	  --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	  --output-file $(OBJECT_STORE).lock

# --- The checks ---

.PHONY: lint types unit integration dags hosts bench chaos simulate acceptance object-store
lint: venv ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv ## mypy, strict
	$(BIN)/mypy

unit: venv ## Tests of pure parts and of the docs
	$(PYTEST) tests/unit tests/docs

integration: need venv archives ## Tests on a real Kafka and a real Spark
	$(PYTEST) tests/integration

dags: need venv archives ## Tests of the DAGs on a real Airflow
	$(PYTEST) tests/dags

hosts: need venv archives ## Hosts of workers and of Spark clusters are lost and come back: half an hour, before a release
	$(PYTEST) -m hosts tests

# In an environment of its own: what an S3 client needs and what Airflow needs do not go together.
OBJECT_STORE := tests/unit/snapshot/object_store
object-store: venv ## Tests of snapshots on an S3-like store
	@$(PYTHON) -m venv --clear $(VENV)/object-store
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)/object-store" $(BIN)/uv pip install --quiet --no-deps --require-hashes -r $(OBJECT_STORE).lock
	$(VENV)/object-store/bin/python -m pytest tests/unit/snapshot

bench: need venv jars ## Measure the active step and the restore
	$(BIN)/python -m tests.benchmarks

chaos: need venv jars ## Random faults and a judge; JOB (ledger, shop), SEED, DURATION (s), MAX_FAULTS, FAULTS, RATE, HEAL (s)
	$(BIN)/python -m tests.chaos $(if $(JOB),--job $(JOB)) $(if $(SEED),--seed $(SEED)) $(if $(DURATION),--duration $(DURATION)) \
	  $(if $(MAX_FAULTS),--max-faults $(MAX_FAULTS)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(RATE),--rate $(RATE)) \
	  $(if $(HEAL),--heal $(HEAL))

simulate: venv ## The simulator: SEED=n for one schedule, RUNS=n (1000) for many from FIRST on, MUTATIONS=1 or =name to prove it
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED) $(if $(TRACE),--trace) $(if $(LOGS),--logs) $(if $(SHRINK),--shrink)) $(if $(KEPT),--kept) \
	  $(if $(RUNS),--runs $(RUNS)) $(if $(FIRST),--first $(FIRST)) $(if $(LIMIT),--limit $(LIMIT)) \
	  $(if $(MUTATIONS),--mutations $(MUTATIONS)) $(if $(ONLY),--only $(ONLY)) $(if $(PROCESSES),--processes $(PROCESSES))

acceptance: need venv jars ## A wheel in a fresh Airflow with two workers, and ten drills on a schedule; ACTS, MINUTES, RATE
	$(BIN)/python -m tests.acceptance $(if $(ACTS),--acts $(ACTS)) $(if $(MINUTES),--drill-minutes $(MINUTES)) \
	  $(if $(RATE),--rate $(RATE))

.PHONY: page browser
UI := airflow_provider/page/ui
page: $(UI)/node_modules/.package-lock.json ## Build the page's bundle of its sources, with npm
	cd $(UI) && npm run build

$(UI)/node_modules/.package-lock.json: $(UI)/package-lock.json
	cd $(UI) && npm ci --ignore-scripts --no-fund --no-audit
	@touch $@

browser: need venv archives $(UI)/node_modules/.package-lock.json ## The page in a real Chromium, and its pictures for the docs: Node and chromium are needed
	PICTURES=docs/images $(PYTEST) -m browser tests

.PHONY: docs
docs: venv ## Build the reference of what users import into docs/api/
	$(BIN)/python docs/build_reference.py

.PHONY: clean
clean: ## Remove what was made in this folder
	rm -rf $(VENV) build dist docs/api .demo .kit .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -path ./.git -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
	@echo "Downloaded jars and data stay in your cache, $${XDG_CACHE_HOME:-$$HOME/.cache}, for the next time"
