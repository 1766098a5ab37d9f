#!/usr/bin/env bash
# The gate: what must hold before a change goes in. The same by hand and in CI.
#
#   scripts/check.sh [--fast] [--fuzz DURATION] [--long] [STEP]...
#
# Steps, in this order (default: all): format vet targets lint house tidy test fuzz typed unraced lan public damage chaos hostile strangers legit; with test among them,
# format, lint and house run beside the others. Test is the race detector's pass, and unraced what it leaves out; who names test gets both.
# --fast is for between two edits, and is no gate: format vet lint house tidy test. Tests run without the race detector then; long ones (-short) are left out, and those of
# packages that have not changed since they passed.
# --fuzz says how long each fuzz target runs (default 0: their seeds alone, with the tests). --long is for the night: every test twenty times over, each fuzz
# target five minutes, every kind of harm that scripts/chaos.sh does to a ring, every target of the releases vetted and linked.
# hostile puts the quick traps of scripts/hostile.sh before a real peer, with --long all of them; strangers does so with the attacks of scripts/strangers.sh, and legit
# with the sites of scripts/legit.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

lint_version=v2.15.0
subjects_since=30a208e
fuzz=0 long=0 fast=0 steps=()
while [ $# -gt 0 ]; do
  case $1 in
    --fuzz) fuzz=${2:?--fuzz needs a duration}; shift ;;
    --fuzz=*) fuzz=${1#*=} ;;
    --fast) fast=1 ;;
    --long) long=1 fuzz=5m ;;
    test) steps+=(test unraced) ;;
    format | vet | targets | lint | house | tidy | unraced | fuzz | typed | lan | public | damage | chaos | hostile | strangers | legit) steps+=("$1") ;;
    *) echo "unknown argument $1; see the head of this file" >&2; exit 2 ;;
  esac
  shift
done
[ $fast = 0 ] || [ $long = 0 ] || { echo "either --fast or --long" >&2; exit 2; }
if [ ${#steps[@]} = 0 ]; then
  steps=(format vet targets lint house tidy test fuzz typed unraced lan public damage chaos hostile strangers legit)
  [ $fast = 0 ] || steps=(format vet lint house tidy test)
fi

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
  golangci-lint fmt --diff
}

step_vet() {
  compiling go vet ./...
  local dir
  for dir in "${tools[@]}"; do (cd "$dir" && compiling go vet ./...); done
}

# Every system that is released: all packages and tests are type-checked for it, and the licences of what is linked are found. --long vets them there and links the program, which compiles all that we import
# once a target, and has the tests run as a program of 32 bits where this machine can.
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
  # shellcheck disable=SC2086 # one word a target
  compiling go run ./scripts/targets $targets
  [ $long = 1 ] || return 0
  # shellcheck disable=SC2086 # one word a folder
  for target in $targets; do
    echo "vet and link for $target"
    GOOS=${target%%/*} GOARCH=${target##*/} GOARM=7 go vet $product
    scripts/release.sh --build-only "$target"
  done
  case $(go env GOHOSTOS)/$(go env GOHOSTARCH) in
    linux/amd64) GOARCH=386 go test -short -timeout 60m ./crawl/... ./dht/... ./dedup/... ./storage/... ./node ./node/crawling ./node/jobs ./node/records ./node/wire ./node/subnets ./node/custody ./cmd/... ;;
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
  compiling golangci-lint run --allow-parallel-runners ./...
}

# Which package imports which: nothing up a floor, nothing in a circle, and docs/house.svg shows it as it is.
step_house() { compiling scripts/house.sh --check; }

step_tidy() { go mod tidy -diff; }

# Packages in which nothing runs beside anything else, tests included: the race detector has nothing to find there, and takes ten times as long.
lone='/(cmd/apoidea/(picture|settings|show|words)|crawl/(domain|extract|farm|frame|frontier|job|novelty|owner|permit|placement|robots|shape|wire|worker/session)|dht/(member|ring|wire|workers)|node/(custody|lab/(internet|model|sim)|volunteer|wire)|storage/replica)(/|$)'

count=1
[ $long = 0 ] || count=20

# -race needs cgo and a C compiler; the product itself is built without.
step_test() {
  if [ $fast = 1 ]; then
    go test -p $((2 * $(getconf _NPROCESSORS_ONLN))) -short -vet=off ./...
    return
  fi
  if ! command -v "$(go env CC)" >/dev/null; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "go test -race needs a C compiler ($(go env CC)); none is installed"; return 1; }
    apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev
  fi
  # With cgo Pebble would take C's zstd, which takes a minute to compile, and the product the one written in Go.
  # Twice as many packages at once as there are processors usually: tests with real peers mostly wait. Vet is a step of its own.
  # shellcheck disable=SC2046 # package names
  CGO_ENABLED=1 compiling go test -exec "$plainly" -p $((2 * $(getconf _NPROCESSORS_ONLN))) -race -tags pebblegozstd -short -vet=off -shuffle=on -count=$count -timeout 60m $(go list ./... | grep -Ev "$lone")
}

# What -short leaves out, and packages of state machines and arithmetic on one goroutine, which the race detector would only slow down.
step_unraced() {
  [ $fast = 0 ] || return 0 # test has run them
  # shellcheck disable=SC2046 # package names
  compiling go test -exec "$plainly" -vet=off -shuffle=on -count=$count -timeout 60m $( (go list ./... | grep -E "$lone"; git grep -l --untracked 'unraced(t)' -- '*_test.go' | xargs -n1 dirname | sed 's|^|github.com/apoidea/apoidea/|') | sort -u)
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

# Files of a peer's data are spoilt, found, mended, and what was in them is crawled again.
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

# ensure_lint: the pinned golangci-lint is in PATH. If need be it is built from its source, with no other linters than .golangci.yml enables: all of them together
# take longer to compile than this module and what it imports. golangci-lint itself says so if one is missing.
ensure_lint() {
  if golangci-lint version 2>/dev/null | grep -q "version ${lint_version#v} "; then return; fi
  local module=github.com/golangci/golangci-lint/v2 linters dir source
  linters=$(sed -n 's/^    - \([a-z]*\)$/\1/p' .golangci.yml | xargs)
  dir=${XDG_CACHE_HOME:-$HOME/.cache}/apoidea/golangci-lint-$lint_version-$(cksum <<<"$linters" | cut -d' ' -f1)
  PATH=$dir:$PATH
  [ ! -x "$dir/golangci-lint" ] || return 0
  echo "building golangci-lint $lint_version with $linters"
  source=$(go mod download -json "$module@$lint_version" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
  [ -n "$source" ] || { echo "$module $lint_version cannot be had"; return 1; }
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

# With the tests to be run, the linter is built and run beside them. What is typed, and what little machines and spoilt files take, waits for peers a lot: it goes
# first, and the tests without the race detector, which only compute, take the time that it leaves. A ring is harmed, and peers are timed, on a machine that does
# nothing else.
aside=() front=()
for step in "${steps[@]}"; do
  case $step in format | lint | house) aside+=("$step") ;; *) front+=("$step") ;; esac
done
case " ${front[*]} " in
  *' test '*) ;;
  *) front=("${steps[@]}") aside=() ;;
esac
[ ${#aside[@]} = 0 ] || beside 15 "${aside[@]}"
for step in "${front[@]}"; do
  case $step in
    typed) beside 0 typed; continue ;;
    unraced) [ $fast = 1 ] || beside 15 unraced; continue ;;
    chaos | hostile | strangers | legit) join ;;
  esac
  run "$step"
done
join
wait "$fetching" || true # what is missing was fetched by the step that needed it
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
echo "all checks passed in $SECONDS s"
