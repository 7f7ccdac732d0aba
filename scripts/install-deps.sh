#!/usr/bin/env bash
# Install what servsim needs from Debian's packages (Debian 12 and newer, Ubuntu 24.04 and newer).
#
# usage: install-deps.sh [PURPOSE...]
#   quickstart    build servsim and capture a workload (without a purpose)
#   workload      run the workloads natively on this host
#   disk-capture  record this host's disk requests by a program in the kernel
#   test          everything that `make test` uses
#   acceptance    what `make acceptance` uses besides: the emulator of Arm64
#
# Idempotent: what is there already is left alone. Prints every package with the reason for it; what the
# package manager says goes to a log, and its end is shown when it fails. Debian 12's own emulator is version 7.2, too old to instrument; 10 comes from bookworm-backports,
# through a private list of sources inside the project's cache, so that /etc/apt stays untouched.
set -euo pipefail
export LC_ALL=C

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

purposes=" ${*:-quickstart} "
for purpose in $purposes; do
    case $purpose in
        quickstart | workload | disk-capture | test | acceptance) ;;
        *)
            say "there is no purpose $purpose; there are quickstart, workload, disk-capture, test, acceptance"
            exit 2
            ;;
    esac
done
# Whether something is wanted for one of the purposes named; the tests use all of it.
for_purpose() {
    local purpose
    for purpose in "$@" test acceptance; do
        if [[ $purposes == *" $purpose "* ]]; then return 0; fi
    done
    return 1
}

command -v apt-get >/dev/null || fail "this machine has no apt-get; install by hand: qemu-system-x86_64 >= $oldest_emulator, \
qemu-img, mmdebstrap, e2fsprogs, gcc, pkg-config, SQLite's headers and static library, Python >= 3.11 with venv, cargo >= $oldest_cargo; for native runs PostgreSQL 15, Apache 2.4 with mod_perl, Perl's DBD::Pg and OpenJDK >= 17; \
for disk captures clang and libbpf 1 with its headers; for the tests all of these, Chromium with its driver, h2load, and Valgrind"

# Package and the reason for it, in the order in which they are shown.
wanted=()
have=()
want() { # PACKAGE REASON
    if [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null)" = "ii " ]; then
        have+=("$1")
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

# Run the package manager with its words in the log, and its progress on a terminal.
log=$cache/install-deps.log
apt() { # apt WHAT ARGUMENTS... ; WHAT is for people
    local what=$1 status=0 line
    shift
    mkdir -p "$cache"
    echo "== apt-get $*" >>"$log"
    say "$what"
    as_root apt-get -o APT::Status-Fd=1 "$@" 2>&1 | while IFS= read -r line; do
        case $line in
            dlstatus:* | pmstatus:*)
                IFS=: read -r _ name share _ <<<"$line"
                if [ -t 2 ]; then printf '\r\033[K%3.0f %% %s' "$share" "$name" >&2; fi
                ;;
            *) echo "$line" >>"$log" ;;
        esac
    done || status=$?
    if [ -t 2 ]; then printf '\r\033[K' >&2; fi
    return "$status"
}
install() { # install WHAT ARGUMENTS...
    local what=$1
    shift
    apt "$what" -q install -y --no-install-recommends "$@" || {
        say "this failed; the end of $log:"
        tail -n 15 "$log" >&2
        fail "packages could not be installed: see above, mend it, and run this again"
    }
}

# Package lists are fetched only when something is missing and not yet known.
updated=
update_lists() {
    [ -n "$updated" ] || apt "fetching package lists" -q update || say "some package lists could not be fetched; going on with what is there"
    updated=yes
}

emulator_version() {
    { qemu-system-x86_64 --version 2>/dev/null || true; } | sed -n 's/.*version \([0-9][0-9.]*\).*/\1/p' | head -n 1
}

[ -n "$(candidate gcc)" ] || update_lists
want gcc "links Rust programs and builds the capture plug-in"
want pkg-config "finds the libraries the capture plug-in uses"
want libsqlite3-dev "SQLite, the engine inside the embedded database workload"
want libc6-dev "the C library for static linking: the driver runs in a guest of another release"
python=$(command -v python3 || true)
if [ -z "$python" ] || ! "$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    want python3-venv "holds the Python part of servsim"
fi
if for_purpose quickstart; then
    want mmdebstrap "makes the guest's tree of Debian packages"
    want e2fsprogs "turns that tree into a disk image (mke2fs -d)"
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || want debian-archive-keyring "checks the signatures of the guest's packages"
fi
if for_purpose workload; then
    want "$(first_of postgresql-15 postgresql)" "the database server, for native runs and the tests of the driver"
    want apache2-bin "the web server of staticweb, ecommerce, board and webmix; nothing of it runs by itself"
    want libapache2-mod-perl2 "runs the pages of ecommerce, board and webmix inside Apache"
    want libdbd-pg-perl "connects those pages to PostgreSQL"
    want "$(first_of openjdk-17-jdk-headless default-jdk-headless)" "compiles and runs the Java server"
fi
if for_purpose disk-capture; then
    want clang "compiles the program that captures block requests in the kernel (BPF)"
    want libbpf-dev "the headers of that program"
    want libbpf1 "loads that program"
fi
if for_purpose; then
    want "$(first_of chromium chromium-browser)" "shows the report in a real browser, for its test"
    want "$(first_of chromium-driver chromium-chromedriver)" "steers that browser"
    want nghttp2-client "an independent client of web servers (h2load), to compare ours with"
    want valgrind "counts of an independent simulator (cachegrind) and its traces (lackey), for a test of the engine"
fi

have_cargo=$({ cargo --version 2>/dev/null || true; } | sed -n 's/^cargo \([0-9.]*\).*/\1/p')
if [ -n "$have_cargo" ] && at_least "$have_cargo" "$oldest_cargo"; then
    have+=("cargo $have_cargo")
elif at_least "$(candidate cargo | sed 's/^.*://')" "$oldest_cargo"; then
    want cargo "compiles the Rust part"
else
    cargo_missing=yes
fi

# An emulator of this release, if that is recent enough to be instrumented.
want_recent() { # PACKAGE REASON
    local version
    version=$(candidate "$1" | sed 's/^.*://')
    [ -n "$version" ] && at_least "$version" "$oldest_emulator" && want "$1" "$2"
}

have_emulator=$(emulator_version)
backports=()
if for_purpose quickstart; then
    if [ -n "$have_emulator" ] && at_least "$have_emulator" "$oldest_emulator"; then
        have+=("qemu-system-x86_64 $have_emulator")
    else
        want_recent qemu-system-x86 "the emulator that captures are made in" || backports+=(qemu-system-x86)
    fi
    if [[ $purposes == *" acceptance "* ]]; then
        want_recent qemu-system-arm "emulates Arm64, for a test of Resource Sets" ||
            command -v qemu-system-aarch64 >/dev/null || backports+=(qemu-system-arm)
    fi
    if ! command -v qemu-img >/dev/null; then
        if [ ${#backports[@]} -gt 0 ]; then backports+=(qemu-utils); else want qemu-utils "makes the guest's disk layers (qemu-img)"; fi
    fi
fi

if [ ${#wanted[@]} -gt 0 ]; then
    update_lists
    install "installing ${#wanted[@]} packages" "${wanted[@]}"
fi

if [ ${#backports[@]} -gt 0 ]; then
    # shellcheck disable=SC1091
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    [ "$release" = bookworm ] || fail "this release ($release) has no emulator of version $oldest_emulator or newer; \
install one and name it in SERVSIM_QEMU"
    say "install ${backports[*]} from bookworm-backports: what captures and tests are emulated by (Debian 12's own is too old)"
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
    apt "fetching the package lists of bookworm-backports" "${options[@]}" -q update ||
        fail "the package lists of bookworm-backports could not be fetched: see $log"
    install "installing the emulator" "${options[@]}" -t bookworm-backports "${backports[@]}"
fi

if [ -n "${cargo_missing:-}" ]; then
    fail "compiling the Rust part needs cargo $oldest_cargo or newer, which this release does not have: \
install it from https://rustup.rs, then run this again"
fi
if [ ${#have[@]} -gt 0 ]; then
    # One sentence for what was there: it is of interest only when something is not.
    printf -v list ', %s' "${have[@]}"
    say "there already: ${list:2}"
fi
say "everything is there"
