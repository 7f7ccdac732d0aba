# Every command that people and continuous integration run. `make help` lists them.
.PHONY: help build test

VENV := .venv
PY := $(VENV)/bin/python

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(PY):
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install -q 'maturin>=1.7,<2'

build: $(PY) ## build the Rust crates and install the Python package into .venv
	. $(VENV)/bin/activate && maturin develop --release -q --extras dev

test: build ## what continuous integration runs
	cargo test --workspace -q
	$(PY) -m pytest
