# Sourced by the scripts of packaging/, tests/run and .ci/run: sets the root of the tree and how
# they build.
set -euo pipefail
roll_top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$roll_top"

# ccache supports precompiled headers only with these settings, which apply to this process alone.
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR="$roll_top"

say() { printf '%s\n' "$*" >&2; }
die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# quietly LOG COMMAND...: runs the command with its output in build/LOG.log; shows the output if it
# fails.
quietly() {
    local log="$roll_top/build/$1.log"
    shift
    mkdir -p "$roll_top/build"
    "$@" >"$log" 2>&1 </dev/null && return
    grep -nE 'error|Error|FAILED' "$log" | head -n 30 >&2 || true
    tail -n 30 "$log" >&2
    die "failed: $* (all of it: ${log#"$roll_top"/})"
}

# build PRESET [TARGET...]: configures and builds the targets.
build() {
    local preset=$1
    shift
    quietly "configure-$preset" cmake --preset "$preset"
    quietly "build-$preset" cmake --build --preset "$preset" ${1:+--target "$@"}
}
