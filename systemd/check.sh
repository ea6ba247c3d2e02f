#!/bin/bash
# Checks the units: systemd takes every line of them, and the system unit stays within its exposure.
# Says so and succeeds where systemd-analyze is absent.
set -euo pipefail
cd "$(dirname "$0")"

# systemd-analyze counts tenths: 15 is an exposure of 1.5 of 10.
threshold=15

if ! command -v systemd-analyze >/dev/null; then
    echo "systemd units: skipped, systemd-analyze is not installed"
    exit 0
fi

copies=$(mktemp -d)
trap 'rm -rf "$copies"' EXIT

# swarmd is not installed where the units expect it, nor is kill in every container, and these complaints must not
# hide others: copies name an existing program in their place.
copy() {
    mkdir -p "$(dirname "$copies/$1")"
    sed -E -e 's,^ExecStart=\S+/bin/swarmd serve$,ExecStart=/bin/true,' \
        -e 's,^ExecReload=/bin/kill ,ExecReload=/bin/true ,' "$1" >"$copies/$1"
    grep -q '^ExecStart=/bin/true$' "$copies/$1" || { echo "$1: ExecStart is not .../bin/swarmd serve" >&2; exit 1; }
}

# verify exits with 0 after many complaints (an unknown key, say), so whatever it prints is a failure.
verify() {
    local complaints
    complaints=$(systemd-analyze verify --man=no --recursive-errors=no "$@" 2>&1) || complaints+=" (exit status $?)"
    if [ -n "$complaints" ]; then
        echo "$complaints" >&2
        exit 1
    fi
}

copy swarmd.service
# Nothing of the person who calls counts: a user's manager would read their drop-ins, and wants a runtime folder.
export HOME=$copies XDG_RUNTIME_DIR=$copies
copy user/swarmd.service
verify "$copies/swarmd.service"
verify --user "$copies/user/swarmd.service"

if ! report=$(systemd-analyze security --offline=true --threshold="$threshold" --no-pager "$copies/swarmd.service" 2>&1); then
    echo "$report" >&2
    exit 1
fi
last=${report##*$'\n'}
echo "systemd units: taken; ${last#→ }"
