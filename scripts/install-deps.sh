#!/usr/bin/env bash
# Install what servsim needs from Debian's packages (Debian 12 and newer, Ubuntu 24.04 and newer).
#
# Idempotent: what is there already is left alone. Prints every package with the reason for it.
# Debian 12's own emulator is version 7.2, too old to instrument; 10 comes from bookworm-backports,
# through a private list of sources inside the project's cache, so that /etc/apt stays untouched.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
cache=${SERVSIM_CACHE:-$here/.cache/servsim}
mirror=${SERVSIM_MIRROR:-http://deb.debian.org/debian}
oldest_emulator=10
oldest_cargo=1.85

say() { echo "install-deps: $*" >&2; }
fail() {
    say "$1"
    exit 3
}

command -v apt-get >/dev/null || fail "this machine has no apt-get; install by hand: qemu-system-x86_64 >= $oldest_emulator, \
qemu-img, mmdebstrap, e2fsprogs, PostgreSQL 15, Chromium with its driver, Valgrind, clang, libbpf 1 with its headers, gcc, pkg-config, Python >= 3.11 with venv, cargo >= $oldest_cargo"

# Package and the reason for it, in the order in which they are shown.
wanted=()
want() { # PACKAGE REASON
    if [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; then
        say "have $1 ($2)"
    else
        say "install $1: $2"
        wanted+=("$1")
    fi
}
# The first of the packages this release has.
first_of() {
    local package
    for package in "$@"; do
        if [ -n "$(candidate "$package")" ]; then
            echo "$package"
            return
        fi
    done
    echo "$1"
}
candidate() {
    apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'
}
# Whether dotted version $1 is at least $2.
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    elif command -v sudo >/dev/null; then
        sudo env DEBIAN_FRONTEND=noninteractive "$@"
    else
        fail "installing packages needs root; run this script as root"
    fi
}

# Package lists are fetched only when something is missing and not yet known.
updated=
update_lists() {
    [ -n "$updated" ] || as_root apt-get -qq update || say "some package lists could not be fetched; going on with what is there"
    updated=yes
}

emulator_version() {
    { qemu-system-x86_64 --version 2>/dev/null || true; } | sed -n 's/.*version \([0-9][0-9.]*\).*/\1/p' | head -n 1
}

[ -n "$(candidate mmdebstrap)" ] || update_lists
want mmdebstrap "makes the guest's tree of Debian packages"
want e2fsprogs "turns that tree into a disk image (mke2fs -d)"
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || want debian-archive-keyring "checks the signatures of the guest's packages"
want gcc "links Rust programs and builds the capture plug-in"
want pkg-config "finds the libraries the capture plug-in uses"
want libc6-dev "the C library for static linking: the driver runs in a guest of another release"
python=$(command -v python3 || true)
if [ -z "$python" ] || ! "$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    want python3-venv "holds the Python part of servsim"
else
    say "have $("$python" --version) with venv (holds the Python part of servsim)"
fi
want "$(first_of postgresql-15 postgresql)" "the database server, for native runs and the tests of the driver"
want "$(first_of chromium chromium-browser)" "shows the report in a real browser, for its test"
want "$(first_of chromium-driver chromium-chromedriver)" "steers that browser"

want clang "compiles the program that captures block requests in the kernel (BPF)"
want libbpf-dev "the headers of that program"
want libbpf1 "loads that program"
want valgrind "counts of an independent simulator (cachegrind) and its traces (lackey), for a test of the engine"

have_cargo=$({ cargo --version 2>/dev/null || true; } | sed -n 's/^cargo \([0-9.]*\).*/\1/p')
if [ -n "$have_cargo" ] && at_least "$have_cargo" "$oldest_cargo"; then
    say "have cargo $have_cargo (compiles the Rust part)"
elif at_least "$(candidate cargo | sed 's/^.*://')" "$oldest_cargo"; then
    want cargo "compiles the Rust part"
else
    cargo_missing=yes
fi

have_emulator=$(emulator_version)
backports=()
if [ -n "$have_emulator" ] && at_least "$have_emulator" "$oldest_emulator"; then
    say "have qemu-system-x86_64 $have_emulator (the emulator that captures are made in)"
else
    version=$(candidate qemu-system-x86 | sed 's/^.*://')
    if [ -n "$version" ] && at_least "$version" "$oldest_emulator"; then
        want qemu-system-x86 "the emulator that captures are made in"
    else
        backports+=(qemu-system-x86)
    fi
fi
if ! command -v qemu-img >/dev/null; then
    if [ ${#backports[@]} -gt 0 ]; then backports+=(qemu-utils); else want qemu-utils "makes the guest's disk layers (qemu-img)"; fi
fi

if [ ${#wanted[@]} -gt 0 ]; then
    update_lists
    as_root apt-get -qq install -y --no-install-recommends "${wanted[@]}" >&2
fi

if [ ${#backports[@]} -gt 0 ]; then
    # shellcheck disable=SC1091
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    [ "$release" = bookworm ] || fail "this release ($release) has no emulator of version $oldest_emulator or newer; \
install one and name it in SERVSIM_QEMU"
    say "install ${backports[*]} from bookworm-backports: the emulator that captures are made in (Debian 12's own is too old)"
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e "$keyring" ] || fail "the keyring $keyring is missing; install debian-archive-keyring"
    apt=$cache/apt-backports
    mkdir -p "$apt/lists/partial"
    {
        echo "deb [signed-by=$keyring] $mirror bookworm main"
        echo "deb [signed-by=$keyring] $mirror bookworm-backports main"
    } >"$apt/sources.list"
    options=(-o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$apt/lists"
        -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=")
    as_root apt-get -qq "${options[@]}" update
    as_root apt-get -qq "${options[@]}" install -y --no-install-recommends -t bookworm-backports "${backports[@]}" >&2
fi

if [ -n "${cargo_missing:-}" ]; then
    fail "compiling the Rust part needs cargo $oldest_cargo or newer, which this release does not have: \
install it from https://rustup.rs, then run this again"
fi
say "everything is there"
