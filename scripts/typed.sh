#!/usr/bin/env bash
# What README.md, CONTRIBUTING.md and docs/ say to type is typed: a fresh clone of HEAD is made, and every line of their indented blocks is run in it in its order,
# each page in a shell, a home directory and (as root on Linux) a network of its own, where nothing but loopback can be reached. Each has to succeed, and the clone
# is left clean. What cannot be run so stands in the table below, with the reason; a line of it that fits nothing is an error, and so is a block that is neither
# commands nor known text. A command that runs a peer in the foreground gets a terminal of its own, as it would from a person.
#
#   scripts/typed.sh [--long] [PAGE]...     --long runs what takes minutes, too
. "$(dirname "$0")/lib.sh"

pages=(README.md CONTRIBUTING.md docs/README.md docs/volunteer.md docs/researcher.md docs/operator.md docs/archivist.md docs/results.md docs/refresh.md docs/repair.md docs/metrics.md docs/webmaster.md)

# Not run: a pattern (extended regular expression) of the line, and why; "long:" is run with --long.
not_run='
https://example\.org/.*--contact	needs a site on the open network; the same with a local one stands above it
apoidea crawl https://example\.org/|why https://example\.org/page	needs a site on the open network
--dns-seed seeds\.example\.org	needs a public ring and the DNS name that leads to it
^apoidea config show	checks the file of the line above it, which names a public ring
^scripts/check\.sh( |$)	is what runs this
^systemctl |^journalctl |--data-dir /var/lib/apoidea	needs systemd
--metrics 192\.0\.2\.7	needs an address that this machine has
^git clone https://github	needs the open network; a clone is what this runs in
^docker 	needs docker, which fetches images
^scripts/release\.sh	builds and packs every target: minutes, dist/; check.sh builds them too
^scripts/reproduce\.sh	builds everything twice: minutes
experiment run 	long: keeps a processor for half a minute and more
^scripts/pages\.sh	long: compiles once more
^scripts/artifact\.sh	repeats all experiments: 16 minutes
^scripts/sql\.sh	installs DuckDB from npm
^apoidea job report 3f2a	needs the ID of a job
'
# Text that is shown and not typed.
text='
^User-[Aa]gent: |^(Crawl-delay|Disallow): 
^scrape_configs:|^  - job_name: |^    (static_configs|authorization): 
^(host|domain|ip|url) [a-z0-9]
^crawl/extract: use the XML declaration|^The prescan of the HTML standard falls
'

# lines PAGE: the lines of its indented blocks.
lines() { awk '/^    / && (blank || inside) { inside = 1; print substr($0, 5) } { if (!/^    /) inside = 0; blank = /^$/ }' "$1"; }

# told LINE: the reason why the line is not run, empty if it is.
told() {
  local reason
  reason=$(found_in "$not_run" "$1")
  [ "${LONG:-}" = 1 ] && [[ $reason = long:* ]] || echo "$reason"
}
is_text() {
  local pattern
  while read -r pattern; do
    if [ -n "$pattern" ] && grep -Eq -- "$pattern" <<<"$1"; then return 0; fi
  done <<<"$text"
  return 1
}

# session PAGE: types the lines of a page. It is this script in a process of its own.
terminals=() # process and data directory of each peer in a terminal of its own
session() {
  local page=$1 line why
  cd "$CLONE"
  while IFS= read -r line; do
    if is_text "$line"; then continue; fi
    why=$(told "$line")
    if [ -n "$why" ]; then
      echo "skip  $line    # $why"
    elif ! [[ $line =~ ^(go|awk|curl|ls|(\./)?apoidea|scripts/[a-z-]+\.sh)\  ]]; then
      echo "WRONG $page: neither a command that is known here nor text: $line"
      return 1
    else
      echo "\$ $line"
      typed "$line" || { echo "WRONG $page: exit code $?: $line"; return 1; }
    fi
  done < <(lines "$page")
}
typed() {
  local dir=$HOME/.local/share/apoidea at=()
  case $1 in
    *'apoidea run '*--until-idle*) eval "$1" </dev/null ;;
    *'apoidea run'*)
      [[ $1 =~ --data-dir\ ([^ ]+) ]] && eval "dir=${BASH_REMATCH[1]}"
      close "$dir"
      mkdir -p "$dir"
      eval "exec $1" >"$dir.out" 2>&1 </dev/null &
      terminals+=("$! $dir")
      at=(--data-dir "$dir")
      if [[ $1 =~ --api\ ([^ ]+) ]]; then at=(--api "${BASH_REMATCH[1]}"); fi # in place of the socket
      wait_for apoidea status "${at[@]}" || { tail -5 "$dir.out"; return 1; }
      ;;
    *'web serve '*'&')
      eval "$1"
      terminals+=("$! web")
      wait_for curl -s http://127.0.0.1:8080/_audit
      ;;
    'apoidea check'* | 'apoidea repair'*)
      close "$dir" # they are for a peer that does not run: Ctrl-C in its terminal first
      eval "$1" </dev/null
      ;;
    *) eval "$1" </dev/null ;;
  esac
}
wait_for() { within 60 "$@" >/dev/null 2>&1 || { echo "not after a minute: $*"; return 1; }; }
# close [DIR]: presses Ctrl-C in the terminals of the peer of that directory, or in all.
close() {
  local t
  for t in "${terminals[@]+"${terminals[@]}"}"; do
    if [ $# = 0 ] || [ "${t#* }" = "$1" ]; then
      kill -INT "${t%% *}" 2>/dev/null || kill "${t%% *}" 2>/dev/null || continue
      wait "${t%% *}" 2>/dev/null || true
    fi
  done
}
leave_session() {
  local d
  close
  for d in "$HOME"/apoidea/*/; do if [ -e "$d/peer1" ]; then apoidea cluster down --quiet --dir "$d" || true; fi; done
}
if [ "${1:-}" = --session ]; then
  set -m # so that an interrupt is heard by what runs in the background
  set +o pipefail # as in a reader's shell: `head` may have enough
  at_end leave_session
  if [ "${ALONE:-}" = 1 ]; then
    ip link set lo up
    ip link add lan type veth peer name far && ip link set far up && ip addr add 10.79.0.1/24 dev lan && ip link set lan up # as if there were a local network
  fi
  session "$2"
  exit
fi

while [ $# -gt 0 ]; do
  case $1 in
    --long) export LONG=1 ;;
    *) [ "${given:-}" = 1 ] || pages=(); given=1; pages+=("$1") ;;
  esac
  shift
done
need git git
need curl curl
clone=$work/clone
git clone -q "$root" "$clone"
# As the reader's go would find them, wherever the home directory is.
for v in GOCACHE GOMODCACHE GOPATH; do export "$v=$(go env $v)"; done
(cd "$clone" && go build -o apoidea ./cmd/apoidea)
ALONE=0
if [ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ] && need ip iproute2 && unshare --net true 2>/dev/null; then ALONE=1; fi
export ALONE CLONE=$clone PATH="$clone:$PATH:/usr/sbin"

# Pages in a network of their own do not disturb each other, and mostly wait.
declare -A running
finish_page() {
  local status=0
  wait "${running[$1]}" || status=$?
  if [ $status = 0 ]; then grep -a '^skip ' "$work/${1//\//-}.log" || true; else tail -60 "$work/${1//\//-}.log"; fi
  check "$1: what it says to type works as typed" [ $status = 0 ]
}
for page in "${pages[@]}"; do
  home=$work/home-${page//\//-}
  mkdir -p "$home"
  way=()
  [ $ALONE = 0 ] || way=(unshare --net --)
  HOME=$home TMPDIR=$home timeout --foreground 1200 "${way[@]}" "$clone/scripts/typed.sh" --session "$page" >"$work/${page//\//-}.log" 2>&1 </dev/null &
  running[$page]=$!
  [ $ALONE = 1 ] || finish_page "$page"
done
if [ $ALONE = 1 ]; then for page in "${pages[@]}"; do finish_page "$page"; done; fi

unchanged() {
  local changes
  changes=$(git -C "$1" status --porcelain)
  [ -z "$changes" ] || { say "$changes"; return 1; }
}
check "the clone is clean afterwards" unchanged "$clone"
if [ -z "${given:-}" ]; then
  for page in "${pages[@]}"; do lines "$clone/$page"; done >"$work/lines"
  stale=0
  while IFS=$'\t' read -r pattern _; do
    if [ -n "$pattern" ] && ! grep -Eq -- "$pattern" "$work/lines"; then say "no line fits: $pattern"; stale=1; fi
  done <<<"$not_run"$'\n'"$text"
  check "what is not run is still there" [ $stale = 0 ]
fi
echo "typed in $SECONDS s"
exit "$failed"
