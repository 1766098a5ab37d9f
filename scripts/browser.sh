#!/usr/bin/env bash
# The page of a peer in a real browser: headless Chromium looks at one of eight peers that crawl a synthetic web. What is shown must agree with
# what the peer says, fit its bounds (bytes, first paint), be usable by keyboard and readable (contrast), refuse what other sites send, and show
# the ring closing when a peer is killed. Screenshots go to the directory given.
#
#   scripts/browser.sh [OUT]        OUT: out
. "$(dirname "$0")/lib.sh"

out=${1:-out}
web_port=${WEB_PORT:-18790}
mkdir -p "$out"
out=$(realpath "$out")

need node nodejs
need npm npm
need "${CHROMIUM:-chromium}" chromium
cp "$root"/scripts/browser/* "$work/bin/"
(cd "$work/bin" && npm ci --no-audit --no-fund --silent) >"$work/npm.log" 2>&1 || { tail -5 "$work/npm.log" >&2; die "npm ci in scripts/browser failed"; }
if [ -n "${APOIDEA:-}" ]; then cp "$APOIDEA" "$work/bin/apoidea"; else (cd "$root" && go build -o "$work/bin/apoidea" ./cmd/apoidea); fi

apoidea web serve --listen "127.0.0.1:$web_port" --hosts 40 --pages 3000 --latency 20ms >"$work/web.log" 2>&1 &
at_end "kill $!"
at_end "apoidea cluster down --dir '$work/ring' --quiet"
sleep 1
apoidea cluster up -n 8 --dir "$work/ring" --allow-private --delay 1s --scope "*.web.localhost:$web_port" "http://h0.web.localhost:$web_port/" --max-depth 6

CHROMIUM=$(command -v "${CHROMIUM:-chromium}") node "$work/bin/check.mjs" "$work/ring" "$out"
