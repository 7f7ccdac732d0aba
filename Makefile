# Every command that people and continuous integration run. `make help` lists them.
#
# All are idempotent. They write to target/, .venv/, .cache/ and out/ in this folder, to servsim's
# own cache folder (see `servsim doctor`), and through the package managers (apt, cargo, pip) only.
.PHONY: help deps simulator build quickstart check test acceptance bench maps clean
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
# One interpreter for every build of the native module, so that cargo never rebuilds it needlessly.
export PYO3_PYTHON := $(CURDIR)/$(PY)
# The native module is tested through Python; the rest of the workspace needs no interpreter.
RUST := --workspace --exclude servsim-py

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

# What packages are installed for: quickstart, workload, disk-capture, test, acceptance (scripts/install-deps.sh).
FOR ?= quickstart
test: FOR = test
acceptance: FOR = acceptance
# Which extras of pyproject.toml are installed: tools for tests, but for quickstart.
EXTRAS ?= dev
quickstart: EXTRAS =

deps: ## install what is missing, and say what and why; FOR=workload, disk-capture, test or acceptance for more than quickstart
	@scripts/install-deps.sh $(FOR)
	@scripts/check-toolchain.sh

$(PY):
	@scripts/check-toolchain.sh
	@echo "build: creating $(VENV), a private Python environment"
	@python3 -m venv $(VENV)

$(VENV)/.maturin: | $(PY)
	@echo "build: installing maturin into $(VENV), to build the native module"
	@$(PY) -m pip install -q --disable-pip-version-check 'maturin>=1.7,<2'
	@touch $@

# The programs that run beside a server or in a guest; those that tests compile, with every check, leave their place to them.
PROGRAMS := $(PY) -c 'from servsim.capture.client import build_programs; build_programs()'

# What captures and simulates: the main job needs no other program.
simulator: $(VENV)/.maturin
	@echo "build: compiling the native module and its Python package, optimised"
	@. $(VENV)/bin/activate && PIP_QUIET=1 maturin develop --release -q $(addprefix --extras ,$(EXTRAS))
	@echo "build: compiling the capture plug-in, and the counting one that checks it"
	@cargo build --release -q -p servsim-capture-plugin
	@cc -O2 -Wall -Wextra -Werror -shared -fPIC -o target/release/libservsim_count.so capture/count/count.c

build: simulator ## build the Rust programs and install the Python package into .venv
	@echo "build: compiling the programs that run beside a server or in a guest"
	@$(PROGRAMS)
	@echo "build: compiling the libraries that place memory: for other programs, and for programs in C"
	@cargo build --release -q -p servsim-rset-preload -p servsim-rset-c
	@echo "build: compiling the mark for Java"
	@cargo build --release -q -p servsim-java-mark

quickstart: deps simulator ## the main job, from nothing to a report
	@$(VENV)/bin/servsim quickstart

check: $(PY) ## formatting, lints, links of documentation, types, architecture, spelling
	cargo fmt --all --check
	cargo clippy -q --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc -q --no-deps --workspace --document-private-items
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/typos
	$(PY) scripts/maps.py --check
	$(PY) -m pytest tests/python/test_architecture.py tests/python/test_house_rules.py

# Optimised and with every check, beside what `build` compiled. These four leave a library for other programs under a name of
# its own, which a checked one would take: of them only what tests need is compiled.
CHECKED := --release --config .cargo/checked.toml -q
LIBRARIES := servsim-capture-plugin servsim-java-mark servsim-rset-c servsim-rset-preload

test: deps build check ## what continuous integration runs (30 minutes at most on two cores)
	cargo test $(CHECKED) $(RUST) $(addprefix --exclude ,$(LIBRARIES))
	cargo test $(CHECKED) --lib $(addprefix -p ,$(LIBRARIES))
	@$(PROGRAMS)
	$(PY) -m pytest -n 2 --dist loadfile

acceptance: deps build ## full-scale checks, resumable; SHARD=i/n runs one part (90 minutes at most)
	@$(PY) scripts/acceptance.py --shard $(or $(SHARD),1/1)

bench: build ## speed and size figures: a table, and JSON in out/
	@$(PY) scripts/bench.py && $(PY) benches/rates.py out/bench.json --page docs/performance.md

maps: $(PY) ## rewrite the tables of ARCHITECTURE.md and the published schemas
	@$(PY) scripts/maps.py
	@$(PY) -c 'from servsim.schema import published; print(published(), end="")' > schemas/servsim.simulate-1.schema.json

clean: ## remove everything these commands made in this folder
	rm -rf target $(VENV) .cache out .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find python -name '*.so' -delete
