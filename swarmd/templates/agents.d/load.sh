#!/bin/sh
# Measures the load and the memory by what the kernel says in /proc: no program beyond sh, awk and sort is needed.
set -eu

read -r load _ < /proc/loadavg
processors=$(nproc)
available=$(awk '/^MemTotal:/ { total = $2 } /^MemAvailable:/ { free = $2 } END { printf "%d", 100 * free / total }' /proc/meminfo)

# Twice as much waiting work as there are processors, or little memory left: worth a look, no reason to wake anybody.
state=$(awk -v load="$load" -v n="$processors" -v free="$available" 'BEGIN { print (load > 2 * n || free < 10) ? "warn" : "ok" }')

before=$(swarmd ctx get state 2>/dev/null || echo new)
swarmd ctx set measured "$(date '+%F %T')"      # load.toml asks for it under [success]
swarmd ctx set state "$state"
swarmd ctx set summary "load $load on $processors processors, $available% of memory available"
[ "$before" = "$state" ] || swarmd report "state $before -> $state: load $load, $available% of memory available"

# What was highest is worth knowing next time; what was measured a minute ago is not, and stands in the key only.
highest=$(sed -n 's/^Highest load so far: \([0-9]*\).*/\1/p' "$SWARMD_MEMORY/MEMORY.md" 2>/dev/null || true)
if [ "${load%.*}" -gt "${highest:--1}" ]; then
    echo "Highest load so far: $load, on $(date '+%F %R')" > "$SWARMD_MEMORY/MEMORY.md"
fi

# The five processes that have used the most processor time, with the memory that they hold. In /proc/PID/stat the
# name stands in parentheses and may hold blanks; what follows it is counted from there.
busiest() {
    cat /proc/[0-9]*/stat 2>/dev/null | awk '{
        match($0, /\(.*\)/); name = substr($0, RSTART + 1, RLENGTH - 2)
        split(substr($0, RSTART + RLENGTH + 1), field, " ")
        printf "%9.1f s  %6d MiB  %s\n", (field[12] + field[13]) / 100, field[22] * 4 / 1024, name
    }' | sort -rn | head -n 5
}

for id in $(swarmd handoff list --to "$SWARMD_AGENT" --status open 2>/dev/null | awk 'NR > 1 { print $1 }'); do
    { echo "load $load, $available% of memory available; the busiest processes:"; busiest; } |
        swarmd handoff complete "$id" --reply -
done
