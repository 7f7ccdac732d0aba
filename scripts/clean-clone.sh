#!/usr/bin/env bash
# Clones this repository as committed, runs `make quickstart` twice and states both times.
# Fails when the first takes over 30 minutes or the second over 5.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone -q . "$folder/servsim"
export SERVSIM_CACHE="$folder/cache"

quickstart() { # quickstart NAME LIMIT_SECONDS
    local start=$SECONDS
    make -C "$folder/servsim" quickstart
    local took=$((SECONDS - start))
    echo "clean clone: $1 quickstart took $took s (limit $2 s)"
    [ "$took" -le "$2" ]
}

quickstart first 1800
quickstart second 300
