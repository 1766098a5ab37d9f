#!/usr/bin/env bash
# WACZ files read by Webrecorder's own reader (npm @webrecorder/wabac, which replay tools are built on): every record that the index names must be
# there with its digest, and the package's digests must hold.
#
#   scripts/wacz-check.sh FILE...
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || die "no file given"
mapfile -t files < <(realpath "$@")
need node nodejs
need npm npm
mkdir -p "$work/npm"
cp "$root"/scripts/waczcheck/* "$work/npm/"
(cd "$work/npm" && npm install --no-audit --no-fund --ignore-scripts --silent) >"$work/npm.log" 2>&1 || { tail -5 "$work/npm.log" >&2; die "npm install failed"; }
node "$work/npm/check.mjs" "${files[@]}"
