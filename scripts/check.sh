#!/usr/bin/env bash
# Checks that must pass before a change goes in. CI runs the same command (.ci/run).
#
#   scripts/check.sh [--full | --long] [--install] [--fuzz DURATION] [STEP]...
#   scripts/check.sh --fast
#   scripts/check.sh --stress [N] [PACKAGE]...
#
# Default steps:     format vet lint house prose tidy test race smoke ordinary
# Steps of --full:   all of these, the race detector for every package that starts goroutines, and
#                    targets fuzz typed newcomer lan public damage chaos hostile strangers legit browser; ordinary with its slow cases
# --fast             between two edits: format vet lint house prose tidy test; passed packages that did not change are not tested again
# --long             for the night: --full with every trial at full length, every test 20 times, each fuzz target for five minutes
# --fuzz DURATION    run each fuzz target that long (default 0: the seeds only, as tests)
# --stress [N]       run the tests of each PACKAGE (default all) N times (default 20) while other processes keep every core busy; print
#                    failures by test. A run that was interrupted continues where it stopped; tests without goroutines run once.
# --install          install missing Debian packages (as root), and fail instead of skipping a linter that is not available
set -euo pipefail
cd "$(dirname "$0")/.."

lint_version=v2.15.0
subjects_since=30a208e
fuzz=0 tier=default count=1 steps=() stress=0 packages=()
while [ $# -gt 0 ]; do
  case $1 in
    --fuzz) fuzz=${2:?--fuzz needs a duration}; shift ;;
    --fuzz=*) fuzz=${1#*=} ;;
    --fast | --full | --long) tier=${1#--} ;;
    --install) export APOIDEA_INSTALL=1 ;;
    --stress)
      stress=20
      if [[ ${2:-} =~ ^[0-9]+$ ]]; then stress=$2; shift; fi
      ;;
    format | vet | lint | house | prose | tidy | test | race | smoke | ordinary | targets | fuzz | typed | newcomer | lan | public | damage | chaos | hostile | strangers | legit | browser) steps+=("$1") ;;
    ./*) packages+=("$1") ;;
    *) echo "unknown argument $1; see the head of this file" >&2; exit 2 ;;
  esac
  shift
done
[ $stress != 0 ] || [ ${#packages[@]} = 0 ] || { echo "packages are arguments of --stress" >&2; exit 2; }
full=0 long=0
case $tier in
  full) full=1 ;;
  long) full=1 long=1 count=20 fuzz=5m ;;
esac
if [ ${#steps[@]} = 0 ]; then
  steps=(format vet lint house prose tidy test race smoke ordinary)
  [ $tier != fast ] || steps=(format vet lint house prose tidy test)
  [ $full = 0 ] || steps=(format vet lint house prose tidy test race targets fuzz typed newcomer lan public damage chaos ordinary hostile strangers legit browser)
fi
[ $full = 0 ] || export APOIDEA_FULL=1 # tests that are not in the default tier run with it

# Modules of their own, so that what they need stays out of the product's go.mod.
tools=(scripts/bench scripts/warccheck)
product='./cmd/... ./crawl/... ./dedup/... ./dht/... ./node/... ./storage/...'

gobin=$(go env GOBIN)
PATH=$PATH:${gobin:-$(go env GOPATH)/bin}
export CGO_ENABLED=0
# What one step has compiled the others find, in the clone of step typed too: without -trimpath the folder would be part of each package.
export GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath"

# compiling COMMAND...: go, compilers and linters run with a larger heap, which takes a tenth of their time away. Tests and peers keep the usual one (plainly).
compiling() { GOGC=400 GOMEMLIMIT=2GiB "$@"; }
plainly='env -u GOGC -u GOMEMLIMIT'

step_format() {
  local files
  files=$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -s -l)
  [ -z "$files" ] || { echo "gofmt -s would change:"; echo "$files"; return 1; }
  ensure_lint
  [ "$lint" = 0 ] || golangci-lint fmt --diff
}

step_vet() {
  compiling go vet ./...
  local dir
  for dir in "${tools[@]}"; do (cd "$dir" && compiling go vet ./...); done
}

# Systems that are released: packages and tests are vetted for Windows and for 32 bits, those with files for certain systems also for macOS and FreeBSD, and the licences of
# what is linked are found. --long vets and links every target, and runs the tests as 32-bit programs where this machine can.
step_targets() {
  local targets target notices
  targets=$(scripts/release.sh --targets)
  notices=$(mktemp)
  scripts/release.sh --notices "$notices"
  for target in 'Go and its standard library' 'github.com/libp2p/go-libp2p v' 'Apache License' 'Redistribution and use in source and binary forms' 'MIT License'; do
    grep -qF "$target" "$notices" || { echo "the notices have no $target"; return 1; }
  done
  if grep -E 'jimsmart/grobotstxt|apoidea/apoidea' "$notices"; then echo 'the notices name what is not linked'; return 1; fi
  rm "$notices"
  [ $long = 1 ] || targets='windows/amd64 linux/arm' # each compiles all that we import
  for target in $targets; do
    echo "vet for $target"
    # shellcheck disable=SC2086 # one word a folder
    GOOS=${target%%/*} GOARCH=${target##*/} GOARM=7 compiling go vet $product
    [ $long = 0 ] || scripts/release.sh --build-only "$target"
  done
  if [ $long = 0 ]; then
    for target in darwin/arm64 freebsd/amd64; do
      echo "vet for $target"
      git ls-files '*_darwin*.go' '*_freebsd*.go' '*_bsd*.go' '*_unix.go' '*_other.go' | xargs dirname | sort -u | sed 's|^|./|' | GOOS=${target%%/*} GOARCH=${target##*/} compiling xargs go vet
    done
    return 0
  fi
  case $(go env GOHOSTOS)/$(go env GOHOSTARCH) in
    linux/amd64) GOARCH=386 go test -short -timeout 60m ./crawl/... ./dht/... ./dedup/... ./storage/... ./node ./node/services/crawling ./node/services/jobs ./node/services/records ./node/services/wire ./node/services/subnets ./node/services/handoff ./cmd/... ;;
  esac
}

step_lint() {
  local long
  # Subjects of commits since this was first asked of them, where history reaches so far.
  if git merge-base --is-ancestor "$subjects_since" HEAD 2>/dev/null; then
    long=$(git log --format='%h %s' "$subjects_since..HEAD" | awk 'length($0) > length($1) + 1 + 72')
    [ -z "$long" ] || { echo "subjects of over 72 characters:"; echo "$long"; return 1; }
  fi
  ensure_lint
  [ "$lint" = 0 ] || compiling golangci-lint run --allow-parallel-runners ./...
}

# Imports follow the layers without cycles, and docs/architecture.svg shows them.
step_house() { compiling scripts/house.sh --check; }

# Language and length of README, the documents and the help of all commands.
step_prose() { scripts/prose.sh; }

step_tidy() { go mod tidy -diff; }

# Packages that start no goroutine, tests included: the race detector finds nothing there, and takes ten times as long.
lone='/(cmd/apoidea/(picture|settings|show|words)|crawl/(domain|extract|frontier|job|owner|permit|placement|robots|trap|wire|worker/session)|dht/(member|ring|wire|workers)|node/lab/(internet|model|sim)|storage/replica)(/|$)'
# Packages whose tests take the race detector minutes: they run with it in --full only.
slow_race='/(cmd/apoidea|crawl/link|crawl/worker|dht|dht/p2p|node|node/lab/cluster|node/lab/.*|node/repair|node/services/records|node/services/rpc|node/ops/seed|scripts/.*|storage|storage/warc)$'

# Tests with real peers mostly wait: more packages run at once than there are processors.
cores=$(getconf _NPROCESSORS_ONLN)
go_test() { compiling go test -exec "$plainly" -p $((2 * cores)) -vet=off -timeout 60m "$@" | sed -u '/\[no test files\]$/d'; }

step_test() {
  local mode=(-shuffle=on -count=$count)
  [ $tier != fast ] || mode=()
  go_test "${mode[@]}" ./...
}

# Every test runs without the race detector; those of packages that start goroutines run with it as well, without those that it makes too slow (-short).
# The race detector needs cgo and a C compiler; the product itself is built without.
step_race() {
  if ! command -v "$(go env CC)" >/dev/null; then
    if [ "${APOIDEA_INSTALL:-}" = 1 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
      apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev
    else
      echo "no C compiler ($(go env CC)): the race detector is skipped"
      return
    fi
  fi
  unset APOIDEA_FULL # slow tests run without the race detector
  # With cgo Pebble would take C's zstd, which takes a minute to compile; the product takes the one written in Go.
  # shellcheck disable=SC2046 # package names
  CGO_ENABLED=1 go_test -race -tags pebblegozstd -short -shuffle=on -count=$count \
    $(go list ./... | grep -Ev "$lone" | if [ $full = 1 ]; then cat; else grep -Ev "$slow_race"; fi)
}

# Three real peers crawl a served web, one is killed with -9, and every page is fetched.
step_smoke() { scripts/chaos.sh smoke; }

# Ordinary sites, exports, first commands and their interruption, on servers of raw bytes and real processes.
step_ordinary() {
  if [ $full = 1 ]; then scripts/ordinary.sh; else scripts/ordinary.sh --quick; fi
}

# tally FILE: prints what it reads, appends the packages that passed to the file, and counts failures by test.
tally() {
  awk -v state="$1" '
    { print; fflush() }
    $1 == "ok" { print $2 >>state; fflush(state) }
    /^ *--- FAIL: / { failed[$3]++ }
    END { for (name in failed) print "failed " failed[name] " times: " name }'
}

# run_stress: see --stress above. What has passed is kept by commit and by content of the work tree.
run_stress() {
  local state load=() status=0 pkgs
  state=${XDG_CACHE_HOME:-$HOME/.cache}/apoidea/stress-$stress-$({ git rev-parse HEAD; git diff HEAD; } | cksum | cut -d' ' -f1)
  mkdir -p "${state%/*}" && touch "$state"
  [ ${#packages[@]} != 0 ] || packages=(./...)
  pkgs=$(go list "${packages[@]}" | grep -Fxvf "$state" || true)
  [ -n "$pkgs" ] || { echo "every package has passed $stress runs"; return; }
  local i
  for ((i = 0; i < cores; i++)); do
    timeout 4h sh -c 'while :; do :; done' &
    load+=($!)
  done
  # shellcheck disable=SC2064 # the array is gone when the script exits
  trap "kill ${load[*]}" EXIT
  local once many
  once=$(grep -E "$lone" <<<"$pkgs" || true) many=$(grep -Ev "$lone" <<<"$pkgs" || true)
  # shellcheck disable=SC2086 # package names
  [ -z "$once" ] || go_test $once | tally "$state" || status=1
  # shellcheck disable=SC2086 # package names
  [ -z "$many" ] || go_test -shuffle=on -count="$stress" $many | tally "$state" || status=1
  return $status
}

# go test sometimes reports the end of the fuzzing time itself as a failure, "context deadline exceeded" without a failing input: that is none.
step_fuzz() {
  [ "$fuzz" != 0 ] || return 0
  local dir name log
  log=$(mktemp)
  git grep -l --untracked '^func Fuzz' -- '*_test.go' ':!scripts' | xargs -r -n1 dirname | sort -u | while read -r dir; do
    sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir"/*_test.go | sort | while read -r name; do
      echo "$name in ./$dir"
      go test -run '^$' -fuzz "^$name\$" -fuzztime "$fuzz" -fuzzminimizetime 2s "./$dir" </dev/null 2>&1 | tee "$log" ||
        { grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input' "$log"; } || exit 1
    done || exit 1
  done
}

# What README.md, CONTRIBUTING.md and docs/ say to type works as typed, on a fresh clone of HEAD.
step_typed() {
  if [ $long = 1 ]; then scripts/typed.sh --long; else scripts/typed.sh; fi
}

# Three machines (network namespaces) form a ring by an address that is copied, and by finding each other.
step_lan() { scripts/lan.sh; }

# A public ring is founded, joined by its name, and outlives a founder, in network namespaces that act as an internet.
step_public() { scripts/public.sh; }

# Files of a peer's data are corrupted, found and repaired, and what was in them is crawled again.
step_damage() {
  if [ $long = 1 ]; then scripts/damage.sh; else scripts/damage.sh --quick; fi
}

# A ring of real processes crawls a real web server while peers are killed, stopped and asked to leave.
step_chaos() {
  if [ $long = 1 ]; then scripts/chaos.sh; else scripts/chaos.sh --quick; fi
}

# Real peers crawl a server of traps.
step_hostile() {
  if [ $long = 1 ]; then scripts/hostile.sh; else scripts/hostile.sh --quick; fi
}

# A ring is attacked by identities that belong to nothing.
step_strangers() {
  if [ $long = 1 ]; then scripts/strangers.sh; else scripts/strangers.sh --quick; fi
}

# Real peers crawl real sites that look like traps, and miss no page.
step_legit() {
  if [ $long = 1 ]; then scripts/legit.sh; else scripts/legit.sh --quick; fi
}

# Every example of every --help works as typed on a machine of its own.
step_newcomer() { scripts/newcomer.sh; }

# The web page of a peer in a real browser.
step_browser() { scripts/browser.sh "$(mktemp -d)"; }

# ensure_lint puts the pinned golangci-lint into PATH, and sets lint to 1, or to 0 if it cannot be had. It is built from its source, with no other linters than .golangci.yml
# enables: all of them together take longer to compile than this module and what it imports.
lint=1
ensure_lint() {
  if golangci-lint version 2>/dev/null | grep -q "version ${lint_version#v} " || build_lint; then return; fi
  lint=0
  echo "golangci-lint $lint_version is not available: skipped"
  [ "${APOIDEA_INSTALL:-}" != 1 ]
}
build_lint() {
  local module=github.com/golangci/golangci-lint/v2 linters dir source
  linters=$(sed -n 's/^    - \([a-z]*\)$/\1/p' .golangci.yml | xargs)
  dir=${XDG_CACHE_HOME:-$HOME/.cache}/apoidea/golangci-lint-$lint_version-$(cksum <<<"$linters" | cut -d' ' -f1)
  PATH=$dir:$PATH
  [ ! -x "$dir/golangci-lint" ] || return 0
  echo "building golangci-lint $lint_version with $linters"
  source=$(go mod download -json "$module@$lint_version" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
  [ -n "$source" ] || return 1
  mkdir -p "$dir/source"
  cp -R "$source/." "$dir/source"
  chmod -R u+w "$dir/source"
  awk -v linters=" golinters $linters " '
    function wanted(name) { return index(linters, " " name " ") }
    /^\t".*\/pkg\/golinters\// { name = $0; sub(/.*\//, "", name); sub(/"$/, "", name); if (!wanted(name)) next }
    /linter\.NewConfig\(/ { name = $0; sub(/.*NewConfig\(/, "", name); sub(/\..*/, "", name); out = !wanted(name) }
    /^\t}, nil/ { out = 0 }
    !out' "$source/pkg/lint/lintersdb/builder_linter.go" >"$dir/source/pkg/lint/lintersdb/builder_linter.go"
  (cd "$dir/source" && compiling go build -ldflags "-s -w -X main.version=${lint_version#v} -X main.date=unknown" -o "$dir/" ./cmd/golangci-lint)
  rm -rf "$dir/source"
  [ -x "$dir/golangci-lint" ]
}

# What later steps need comes over the network while the first ones use the processors.
(go mod download; for dir in "${tools[@]}"; do (cd "$dir" && go mod download); done) >/dev/null 2>&1 &
fetching=$!

# run does a step, and remembers in $failed if it went wrong. In a subshell with errexit of its own: as the condition of an if, errexit would be off within.
failed=()
run() {
  local begin=$SECONDS status
  echo "== $1"
  set +e
  (set -e; "step_$1")
  status=$?
  set -e
  if [ $status = 0 ]; then echo "== $1: ok, $((SECONDS - begin)) s"; else echo "== $1: FAILED, $((SECONDS - begin)) s"; failed+=("$1"); fi
}

# beside NICE STEP... does steps beside those that follow. What they said is printed when joined.
asides=() asidelogs=() pids=()
beside() {
  local nice=$1 log
  shift
  log=$(mktemp)
  (
    renice -n "$nice" -p "$BASHPID" >/dev/null || true
    failed=()
    for step in "$@"; do run "$step"; done
    [ ${#failed[@]} = 0 ]
  ) >"$log" 2>&1 &
  pids+=($!) asides+=("$*") asidelogs+=("$log")
}
join() {
  local i
  for i in "${!pids[@]}"; do
    wait "${pids[$i]}" || failed+=("${asides[$i]}")
    cat "${asidelogs[$i]}"
    rm -f "${asidelogs[$i]}"
  done
  pids=() asides=() asidelogs=()
}
trap 'rm -f "${asidelogs[@]}"; [ ${#pids[@]} = 0 ] || kill "${pids[@]}"' EXIT

[ $stress = 0 ] || { run_stress; exit; }

# The linter runs beside the tests, at low priority. Typed pages, which mostly wait for peers, run beside what follows them. Trials that measure time run alone.
aside=() front=()
for step in "${steps[@]}"; do
  case $step in format | lint | house | prose) aside+=("$step") ;; *) front+=("$step") ;; esac
done
case " ${front[*]} " in
  *' test '*) ;;
  *) front=("${steps[@]}") aside=() ;;
esac
[ ${#aside[@]} = 0 ] || beside 15 "${aside[@]}"
for step in "${front[@]}"; do
  case $step in
    typed) beside 0 typed; continue ;;
    smoke | ordinary | chaos | hostile | strangers | legit | browser) join ;;
  esac
  run "$step"
done
join
wait "$fetching" || true # what is missing was fetched by the step that needed it
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
echo "all checks passed in $SECONDS s"
