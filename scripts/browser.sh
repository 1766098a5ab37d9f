#!/usr/bin/env bash
# The page of a peer in a real browser: headless Chromium looks at one of eight peers that crawl a synthetic web. What is shown must agree with
# what the peer says, fit its bounds (bytes, first paint), be usable by keyboard and readable (contrast), refuse what other sites send, and show
# the ring closing when a peer is killed. Screenshots go to the directory given.
#
#   scripts/browser.sh [OUT]        OUT: out
#   scripts/browser.sh --docs       takes the pictures of docs/img instead, of a ring with distances between peers and sites; smaller where pngquant is installed
. "$(dirname "$0")/lib.sh"

docs=
if [ "${1:-}" = --docs ]; then docs=1 out=$root/docs/img; else out=${1:-out}; fi
web_port=${WEB_PORT:-18790}
mkdir -p "$out"
out=$(realpath "$out")

need node nodejs
need npm npm
need "${CHROMIUM:-chromium}" chromium
cp "$root"/scripts/browser/* "$work/bin/"
(cd "$work/bin" && npm ci --no-audit --no-fund --silent) >"$work/npm.log" 2>&1 || { tail -5 "$work/npm.log" >&2; die "npm ci in scripts/browser failed"; }
build_apoidea

apoidea web serve --listen "127.0.0.1:$web_port" --hosts 40 --pages 3000 --latency 20ms >"$work/web.log" 2>&1 &
at_end "kill $!"
at_end "apoidea cluster down --dir '$work/ring' --quiet"
sleep 1
distances=()
if [ -n "$docs" ]; then # 8 peers and 40 places of sites, at points of a square 80 ms wide
  awk 'BEGIN { srand(7); for (i = 0; i < 48; i++) { x[i] = 80 * rand(); y[i] = 80 * rand() }
    for (i = 0; i < 48; i++) for (j = 0; j < 48; j++) printf "%.1f%s", i == j ? 0 : 4 + sqrt((x[i] - x[j]) ^ 2 + (y[i] - y[j]) ^ 2), j < 47 ? "," : "\n" }' >"$work/rtt.csv"
  distances=(--latency "$work/rtt.csv")
fi
apoidea cluster up -n 8 "${distances[@]}" --dir "$work/ring" --allow-private --delay 1s --scope "*.web.localhost:$web_port" "http://h0.web.localhost:$web_port/" --max-depth 6

CHROMIUM=$(command -v "${CHROMIUM:-chromium}")
export CHROMIUM
if [ -z "$docs" ]; then
  node "$work/bin/check.mjs" "$work/ring" "$out"
else
  node "$work/bin/pictures.mjs" "$work/ring" "$out"
  for picture in "$out"/dashboard*.png; do
    if command -v pngquant >/dev/null; then pngquant --force --strip --skip-if-larger --quality 70-95 --output "$picture" "$picture" || [ $? = 98 ]; fi
    check "$(basename "$picture") is under 150 kB" [ "$(wc -c <"$picture")" -lt 150000 ]
  done
  exit "$failed"
fi
