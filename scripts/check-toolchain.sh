#!/usr/bin/env bash
# Says in one sentence what to install when Rust or Python is missing or too old, and exits 3.
set -euo pipefail

fail() {
    echo "servsim: $1" >&2
    exit 3
}

oldest_cargo=1.85 # rust-version in Cargo.toml
oldest_python=3.11 # requires-python in pyproject.toml

not_older() { # not_older FOUND WANTED
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

command -v cargo >/dev/null ||
    fail "cargo is missing: install Rust $oldest_cargo or newer from https://rustup.rs and open a new shell"
found=$(cargo --version | awk '{print $2}')
not_older "$found" "$oldest_cargo" ||
    fail "cargo $found is too old: install Rust $oldest_cargo or newer from https://rustup.rs (\`rustup update stable\`)"
command -v cc >/dev/null ||
    fail "a C compiler is missing, which the compression library needs: run \`apt-get install build-essential\` as root"
command -v python3 >/dev/null ||
    fail "python3 is missing: run \`apt-get install python3 python3-venv\` as root"
found=$(python3 -c 'import platform; print(platform.python_version())')
not_older "$found" "$oldest_python" ||
    fail "Python $found is too old: install Python $oldest_python or newer (Debian 12 and later have it)"
python3 -c 'import ensurepip, venv' 2>/dev/null ||
    fail "Python's venv module is missing: run \`apt-get install python3-venv\` as root"
