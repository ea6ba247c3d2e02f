#!/bin/sh
# opencode as a session's program: it acts through `swarmd mcp`, to which the session's variables are passed on.
set -eu

# Everything that it keeps goes with the session; nothing is fetched, and no file of the working folder configures it.
export XDG_DATA_HOME="$TMPDIR/data" XDG_CONFIG_HOME="$TMPDIR/config" XDG_STATE_HOME="$TMPDIR/state"
export XDG_CACHE_HOME="$TMPDIR/cache"
export OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_PROJECT_CONFIG=1
export OPENCODE_DISABLE_DEFAULT_PLUGINS=1 OPENCODE_DISABLE_LSP_DOWNLOAD=1
export OPENCODE_CONFIG_CONTENT='{
  "model": "anthropic/claude-opus-4-8", "share": "disabled", "autoupdate": false,
  "provider": {"anthropic": {"options": {"baseURL": "'"${MODEL_URL:-https://api.anthropic.com/v1}"'"}}},
  "mcp": {"swarmd": {"type": "local", "command": ["swarmd", "mcp"], "enabled": true}}
}'

"${OPENCODE:-opencode}" run --format json --pure --auto --title swarmd <"$SWARMD_PROMPT" | tee "$TMPDIR/events"

# It exits with 0 where an answer was cut off, too: only `stop` is a good end.
case "$(grep '"step_finish"' "$TMPDIR/events" | tail -n 1)" in
*'"reason":"stop"'*) ;;
*)
    echo "opencode did not come to a good end" >&2
    exit 1
    ;;
esac
