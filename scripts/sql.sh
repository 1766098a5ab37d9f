#!/usr/bin/env bash
# Answers questions about the Parquet tables of `apoidea export parquet -o DIR` with DuckDB, which npm installs on the first run.
#
#   scripts/sql.sh DIR                 ten questions (scripts/sql/questions.sql): each with its SQL and its answer
#   scripts/sql.sh DIR 'SELECT ...'    one question of yours, about the views urls, links, hosts and texts (DIR/text.ndjson, of export text)
#   scripts/sql.sh --check DIR         reads all files with a second program, hyparquet, too, and compares the counts
. "$(dirname "$0")/lib.sh"

check=''
if [ "${1:-}" = --check ]; then check=--check; shift; fi
[ $# -ge 1 ] && [ $# -le 2 ] || die "usage: scripts/sql.sh [--check] DIR ['SELECT ...']"
[ -d "$1" ] || die "$1: no such directory; make it with: apoidea export parquet --tables urls,links,hosts -o $1"
dir=$(realpath "$1")
need node nodejs
need npm npm
home=${XDG_CACHE_HOME:-$HOME/.cache}/apoidea/sql
mkdir -p "$home"
if ! cmp -s "$root/scripts/sql/package.json" "$home/package.json" || [ ! -d "$home/node_modules" ]; then
  cp "$root/scripts/sql/package.json" "$home/"
  (cd "$home" && npm install --no-audit --no-fund --ignore-scripts --silent) >"$work/npm.log" 2>&1 || { tail -5 "$work/npm.log" >&2; rm -f "$home/package.json"; die "npm install failed"; }
fi
cp "$root/scripts/sql/run.mjs" "$home/"
if [ $# = 2 ]; then
  node "$home/run.mjs" "$dir" - $check <<<"$(tr '\n' ' ' <<<"$2")"
else
  node "$home/run.mjs" "$dir" "$root/scripts/sql/questions.sql" $check
fi
