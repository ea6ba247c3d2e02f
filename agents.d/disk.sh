#!/bin/sh
# Measures how full the file systems are. An agent can be as small as this: measure, set keys, answer what was asked.
#
# Nothing that a session writes with `swarmd` is visible to others until it has ended with exit status 0; then all of
# it is saved at once. If this script fails half-way (set -e), nothing is.
set -eu

# --- Measure. df reads no file, so the sandbox has nothing to say to it. ------------------------------------------
# df says 1 when one of many mounts cannot be looked at; the others are good all the same.
table=$(df -P -l -x tmpfs -x devtmpfs -x squashfs -x iso9660 2>/dev/null || true)
[ -n "$table" ] || table=$(df -P /)
# Two words: how many percent, and where.
fullest=$(printf '%s\n' "$table" | awk 'NR > 1 && $5 + 0 >= max { max = $5 + 0; at = $6 } END { print max, at }')
percent=${fullest%% *}
summary="the fullest file system is ${fullest#* } ($percent%)"

state=ok
[ "$percent" -lt 85 ] || state=warn
[ "$percent" -lt 95 ] || state=bad

# --- Keys: small values that stand in this agent's next prompt, and that the agent above can read. ----------------
# What is set to the value that it has already is no change.
before=$(swarmd ctx get state 2>/dev/null || echo new)
swarmd ctx set state "$state"
swarmd ctx set summary "$summary"

# --- A report: a note to the agent above, only where something is different. --------------------------------------
[ "$before" = "$state" ] || swarmd report "state $before -> $state: $summary"

# --- Memory: files in $SWARMD_MEMORY, a private copy that becomes the agent's memory when the session is saved. ---
highest=$(sed -n 's/^Fullest so far: \([0-9]*\)%.*/\1/p' "$SWARMD_MEMORY/MEMORY.md" 2>/dev/null || true)
if [ "$percent" -gt "${highest:-0}" ]; then
    echo "Fullest so far: $percent%, ${fullest#* } on $(date +%F)" > "$SWARMD_MEMORY/MEMORY.md"
fi

# --- Handoffs: work that the agent above (or an operator) has given to this one. ----------------------------------
for id in $(swarmd handoff list --to "$SWARMD_AGENT" --status open 2>/dev/null | awk 'NR > 1 { print $1 }'); do
    {
        echo "$summary"
        printf '%s\n' "$table"
        echo "the largest folders that can be read, in MiB:"
        # With a few seconds for each: an answer in time is worth more than a whole one.
        for folder in /home /opt /root /srv /usr/lib /usr/share /var/cache /var/log; do
            [ -r "$folder" ] && timeout 3 du -sxm "$folder" 2>/dev/null || true
        done | sort -rn | head -n 5
    } | swarmd handoff complete "$id" --reply -
done
