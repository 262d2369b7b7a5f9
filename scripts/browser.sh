#!/usr/bin/env bash
# Opens reports in HTML, made by the real command, in a real browser without a window: nothing in
# the console, charts drawn, filters, sorting, details, keys, light and dark, narrow screens, no
# request to a network.
#
#   scripts/browser.sh              one or two minutes once the command is built; not in the gate
#
# Needs chromium and Node.js (Debian: apt-get install chromium nodejs npm); CHROMIUM=/path names
# another browser of that family. playwright-core, which drives it, is installed into
# target/browser, where reports and pictures of them stay to be looked at. SEAWALL=/path names a
# command that is built already.
#
# Exit code: 0 all checks passed, 1 a check failed, 2 it could not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=${CARGO_TARGET_DIR:-$PWD/target}/browser
playwright=1.55.0

cannot() {
    echo "browser: $*" >&2
    exit 2
}

chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$chromium" ] || cannot "chromium is missing; apt-get install chromium, or set CHROMIUM"
command -v node >/dev/null || cannot "node is missing; apt-get install nodejs npm"

mkdir -p "$work/reports"
if [ ! -e "$work/node_modules/playwright-core/package.json" ]; then
    command -v npm >/dev/null || cannot "npm is missing; apt-get install npm"
    npm install --silent --no-audit --no-fund --prefix "$work" "playwright-core@$playwright" ||
        cannot "playwright-core cannot be installed into $work"
fi

seawall=${SEAWALL:-}
if [ -z "$seawall" ]; then
    cargo build --locked --quiet -p seawall-cli
    seawall=${CARGO_TARGET_DIR:-$PWD/target}/debug/seawall
fi

# What it found does not matter: 1 is a finding, and a quick look has them on purpose.
report() {
    local name=$1 code=0
    shift
    "$seawall" "$@" --html "$work/reports/$name.html" >"$work/reports/$name.txt" 2>&1 || code=$?
    [ "$code" -lt 2 ] || cannot "seawall $* ended with $code: $(tail -3 "$work/reports/$name.txt")"
}

quick="--machine desktop --crashes 3"
report compare compare --workloads hash,queue,sps --designs clwb,lb,lbpp,hops,volatile \
    --ops 40 --json "$work/reports/compare.jsonl" $quick
report broken compare --workloads hash --designs lb,lbpp:flaw="'acknowledges-early'" \
    --machine desktop --ops 100 --crashes 20
report kernels kernels lu:8 radix:4096 --designs bsp-lb,bsp-lbpp $quick
rm -f "$work/reports/sweep.jsonl"
report sweep sweep scripts/browser/sweep.toml --out "$work/reports/sweep.jsonl"
report reproduce reproduce scripts/browser/figure.toml
report explore explore ff-8 --seconds 5
report race explore hash --flaw no-order --threads 2 --ops 3 --seconds 5

node scripts/browser/check.mjs "$chromium" "$work" && echo "browser: all checks passed"
