#!/usr/bin/env bash
# The program for every system that it is meant for, or for those named, with its manual pages and completions, into dist/.
#
#   scripts/release.sh                        all
#   scripts/release.sh linux/arm windows/amd64
#   scripts/release.sh --build-only [TARGET...]   whether it builds; keeps nothing
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
export CGO_ENABLED=0

keep=1
if [ "${1:-}" = --build-only ]; then keep=0; shift; fi
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(linux/amd64 linux/arm64 linux/arm darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 freebsd/amd64 freebsd/arm64 freebsd/arm)
version=${VERSION:-$(git describe --tags --always --dirty)}
version=${version#v}
work=$(mktemp -d "${TMPDIR:-/tmp}/apoidea.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ $keep = 0 ] || scripts/pages.sh "$work/pages"
[ $keep = 0 ] || mkdir -p dist

for target in "${targets[@]}"; do
  os=${target%%/*} arch=${target##*/} exe=apoidea
  [ "$os" != windows ] || exe=apoidea.exe
  name=apoidea_${version}_${os}_${arch}
  mkdir -p "$work/$name"
  GOOS=$os GOARCH=$arch GOARM=7 go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$work/$name/$exe" ./cmd/apoidea
  echo "$target: $(stat -c %s "$work/$name/$exe" 2>/dev/null || stat -f %z "$work/$name/$exe") bytes"
  if [ $keep = 1 ]; then
    cp -R LICENSE README.md CHANGELOG.md docs scripts/packaging/apoidea.service "$work/pages/man" "$work/pages/completions" "$work/$name/"
    tar -C "$work" -czf "dist/$name.tar.gz" "$name"
  fi
  rm -r "${work:?}/$name"
done
[ $keep = 0 ] || (cd dist && sha256sum apoidea_"$version"_*.tar.gz >SHA256SUMS && cat SHA256SUMS)
