#!/usr/bin/env bash
# The program for every system that it is meant for, or for those named, with its manual pages, completions and the licences of all that is linked into it
# (THIRD_PARTY_NOTICES), into dist/.
#
#   scripts/release.sh                        all
#   scripts/release.sh linux/arm windows/amd64
#   scripts/release.sh --build-only [TARGET...]   whether it builds; keeps nothing
#   scripts/release.sh --targets              what all are: those of .goreleaser.yml
#   scripts/release.sh --notices FILE         the licences alone
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
export CGO_ENABLED=0

# goreleaser's matrix, which is on a line each for systems, processors and what is left out.
targets() {
  local os arch
  for os in $(sed -n 's/^ *goos: \[\(.*\)\]$/\1/p' .goreleaser.yml | tr -d ,); do
    for arch in $(sed -n 's/^ *goarch: \[\(.*\)\]$/\1/p' .goreleaser.yml | tr -d ,); do
      grep -qF "{ goos: $os, goarch: $arch }" .goreleaser.yml || echo "$os/$arch"
    done
  done
}

# notices FILE: of everything that is linked for any of the targets.
notices() {
  # shellcheck disable=SC2046 # no target has a space
  GOOS='' GOARCH='' go run ./scripts/notices $(targets) >"$1"
}

if [ "${1:-}" = --targets ]; then targets; exit; fi
if [ "${1:-}" = --notices ]; then notices "${2:?--notices needs a file}"; exit; fi
keep=1
if [ "${1:-}" = --build-only ]; then keep=0; shift; fi
targets=("$@")
# shellcheck disable=SC2207 # no target has a space
[ ${#targets[@]} -gt 0 ] || targets=($(targets))
[ ${#targets[@]} -gt 0 ] || { echo "no targets: .goreleaser.yml does not have goos and goarch on a line each" >&2; exit 1; }
version=${VERSION:-$(git describe --tags --always --dirty)}
version=${version#v}
work=$(mktemp -d "${TMPDIR:-/tmp}/apoidea.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ $keep = 0 ] || scripts/pages.sh "$work/pages"
[ $keep = 0 ] || notices "$work/THIRD_PARTY_NOTICES"
[ $keep = 0 ] || mkdir -p dist

for target in "${targets[@]}"; do
  os=${target%%/*} arch=${target##*/} exe=apoidea
  [ "$os" != windows ] || exe=apoidea.exe
  name=apoidea_${version}_${os}_${arch}
  mkdir -p "$work/$name"
  GOOS=$os GOARCH=$arch GOARM=7 go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$work/$name/$exe" ./cmd/apoidea
  echo "$target: $(stat -c %s "$work/$name/$exe" 2>/dev/null || stat -f %z "$work/$name/$exe") bytes"
  if [ $keep = 1 ]; then
    cp -R LICENSE "$work/THIRD_PARTY_NOTICES" README.md CHANGELOG.md docs scripts/packaging/apoidea.service "$work/pages/man" "$work/pages/completions" "$work/$name/"
    tar -C "$work" -czf "dist/$name.tar.gz" "$name"
  fi
  rm -r "${work:?}/$name"
done
[ $keep = 0 ] || (cd dist && sha256sum apoidea_"$version"_*.tar.gz >SHA256SUMS && cat SHA256SUMS)
