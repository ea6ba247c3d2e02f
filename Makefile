# make test    every check: lint, types, layers, units, tests (what the continuous build runs)
# make cover   the tests with their coverage, which takes half as long again
# make demo    a small tree of agents, live, without any key
# make lint    the checks without the tests
# make test-clients    install Claude Code, Codex and opencode into .clients (npm, 1 GB), and the tests with them
# make crash   kills and power cuts at each 8th step of a session and each 61st of what keeps its memory, against the
#              promises, and kills of a daemon whose memory people edit: an hour or more on two cores
#              (at every step: .venv/bin/python -m tests.crash.run --all, a day)
# make bench   the measurements
# make clean   remove .venv and what the tools left
#
# All of it lives in .venv, made on first use. PYTHON=/path/to/python3 chooses another Python than the one found;
# PYTEST="-k handoff" adds options of pytest; JOBS=8 runs more tests at once.

.PHONY: test cover test-clients lint demo crash bench clean
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The version that constraints.txt was frozen with comes first.
PYTHON ?= $(shell for name in python3.11 python3 python3.14 python3.13 python3.12; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
DEMO ?= swarmd.demo
PYTEST ?=
# Many tests wait for processes: one more than there are cores.
JOBS ?= $(shell cores=$$(nproc); echo $$((cores < 4 ? cores + 1 : 4)))

# Paths are relative and programs are called through Python, so that the checkout may lie in a path with spaces.
VENV := .venv/bin/python
PIP := $(VENV) -m pip --disable-pip-version-check -qq install -c constraints.txt

test: lint
	$(VENV) -m pytest -n $(JOBS) --dist worksteal $(PYTEST)

cover: .venv/.dev
	$(VENV) -m pytest -n $(JOBS) --dist worksteal --cov $(PYTEST)

lint: .venv/.dev
	$(VENV) -m ruff check .
	$(VENV) -m ruff format --check .
	$(VENV) -m mypy
	.venv/bin/lint-imports
	systemd/check.sh

test-clients: .venv/.dev .clients/.made
	$(VENV) -m pytest -m clients -rs $(PYTEST)

demo: .venv/.run
	$(VENV) -m $(DEMO)

crash: .venv/.dev
	$(VENV) -m tests.crash.run --every 8 --wide --stories sessions
	$(VENV) -m tests.crash.run --every 61 --wide --stories memory
	$(VENV) -m tests.crash.together --seeds 60

bench: .venv/.dev
	$(VENV) -m tests.bench

clean:
	rm -rf .venv build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find swarmd tests -name __pycache__ -prune -exec rm -rf {} +

# The versions that were tested (tests/clients.py names them, too). Their programs alone: no script of theirs is run.
ARCH := $(if $(filter aarch64 arm64,$(shell uname -m)),arm64,x64)

.clients/.made: Makefile
	npm install --prefix .clients --ignore-scripts --no-audit --no-fund --no-save \
	  @anthropic-ai/claude-code-linux-$(ARCH)@2.1.332 @openai/codex@0.171.0 opencode-linux-$(ARCH)@1.18.34
	@touch $@

# Stamps: what is written last, and only where all before it went well.
.venv/.made:
	@test -n "$(PYTHON)" || \
	  { echo "swarmd needs Python 3.11 or newer, and none was found: install it, or name it with make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "swarmd needs Python 3.11 or newer, and $(PYTHON) is not: name another with make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make a virtual environment: on Debian and Ubuntu install the package python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear .venv
	@touch $@

# Both install in place: one .venv serves every target and never runs a stale copy.
.venv/.run: .venv/.made pyproject.toml constraints.txt
	$(PIP) -e .
	@touch $@

.venv/.dev: .venv/.made pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	@touch .venv/.run $@
