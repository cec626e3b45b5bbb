# Two commands are all that a fresh machine needs: `make demo` and `make test`.
# Needed beforehand: Python >= 3.11 (or PYTHON=/path/to/it), Java >= 17 and make.

PYTHON ?= python3
KEEP ?=

VENV := .venv
BIN := $(VENV)/bin
UV = VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv

# What pip was told about indexes and certificates holds for uv as well.
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
demo: need venv ## Show a failover on real parts; KEEP=1 leaves all up
	@$(BIN)/python -m airflow_provider.demo $(if $(KEEP),--keep)

.PHONY: down
down: venv ## End what `make demo KEEP=1` left up
	@$(BIN)/python -m airflow_provider.demo down

.PHONY: test
test: need lint types jars ## Everything that has to pass
	@# The integration tests mostly wait, so the others run beside them; what those said is shown when all are done.
	@said=$$(mktemp); $(MAKE) --no-print-directory unit dags > "$$said" 2>&1 & others=$$!; \
	trap 'kill $$others 2>/dev/null; exit 130' INT TERM; \
	$(MAKE) --no-print-directory integration; failed=$$?; \
	wait $$others || failed=$$?; cat "$$said"; rm -f "$$said"; exit $$failed

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

.PHONY: venv jars lock
venv: $(VENV)/.ready ## Make the virtual environment from the lock

# uv comes out of the lock too, hash and all, and installs the rest several times faster than pip. Where it
# cannot reach what pip can (a setting that only pip reads), pip does it.
$(VENV)/.ready: requirements.lock pyproject.toml | need-python
	$(PYTHON) -m venv --clear $(VENV)
	@awk '/^uv==/ {take = 1} take {print} take && !/\\$$/ {exit}' requirements.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r $(VENV)/uv.lock
	$(UV) pip install --quiet --no-deps --require-hashes --build-constraints requirements.lock -r requirements.lock || \
	  $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements.lock
	$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

jars: need venv ## Resolve Spark's Kafka connector and Kafka's broker into the user's cache
	@$(BIN)/python -m airflow_provider.embedded.jars

lock: venv ## Resolve requirements.lock anew (hashes, no host)
	$(UV) pip compile pyproject.toml --quiet --universal --python-version 3.11 --all-extras --upgrade \
	  --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	  --output-file requirements.lock

# --- The checks ---

.PHONY: lint types unit integration dags bench chaos
lint: venv ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv ## mypy, strict
	$(BIN)/mypy

unit: venv ## Tests of pure parts, under a minute
	$(BIN)/python -m pytest tests/unit

integration: need venv jars ## Tests on a real Kafka and a real Spark
	$(BIN)/python -m pytest tests/integration

dags: need venv jars ## Tests of the DAGs on a real Airflow
	$(BIN)/python -m pytest tests/dags

bench: need venv jars ## Measure the active step and the restore
	$(BIN)/python -m tests.benchmarks

chaos: need venv jars ## Random faults and a judge; SEED, DURATION (s), MAX_FAULTS, FAULTS, RATE
	$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(DURATION),--duration $(DURATION)) \
	  $(if $(MAX_FAULTS),--max-faults $(MAX_FAULTS)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(RATE),--rate $(RATE))

.PHONY: clean
clean: ## Remove what was made in this folder
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -path ./.git -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
