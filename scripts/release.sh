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

# notices FILE: the licences of Go and of each module of which a package is linked for any of the targets, by the files of its root and of the folders down to these
# packages. Texts that are the same are written once. A module without a licence is an error.
notices() {
  local texts target name top dir path text sum seen=''
  texts=$(mktemp -d "${TMPDIR:-/tmp}/apoidea.XXXXXX")
  for target in $(targets); do
    GOOS=${target%%/*} GOARCH=${target##*/} GOARM=7 go list -deps -f '{{$p := .}}{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}|{{.Dir}}|{{$p.Dir}}{{end}}{{end}}' ./cmd/apoidea
  done | awk 'NF' | cat - <(echo "Go and its standard library, $(go env GOVERSION)|$(go env GOROOT)|$(go env GOROOT)") |
    awk -F'|' '{ for (d = $3; length(d) >= length($2); sub(/[\/][^\/]*$/, "", d)) print $1 "|" $2 "|" d }' | LC_ALL=C sort -u >"$texts/folders"
  { echo 'apoidea is made with the software of others. What follows is whose it is, and their licences.'; echo; cut -d'|' -f1 "$texts/folders" | uniq | sed 's/^/  /'; } >"$1"
  while IFS='|' read -r name top dir; do
    find "$dir" -maxdepth 1 | LC_ALL=C sort | grep -iE '/(un)?(licen[cs]es?|copying|copyright|notice|patents|third_party_licenses)([-._][^/]*)?$' | grep -vE '\.(go|sh)$' |
      while read -r path; do find "$path" -type f | LC_ALL=C sort; done | sed "s|^|$name\|$top\||" || true
  done <"$texts/folders" >"$texts/files"
  while IFS='|' read -r name top path; do
    text=$(tr -d '\r' <"$path")
    text=${text#"${text%%[![:space:]]*}"}
    sum=$(cksum <<<"$text" | tr ' ' -)
    [ -e "$texts/$sum" ] || { echo "$text" >"$texts/$sum"; seen+=" $sum"; }
    echo "$name, ${path#"$top"/}" >>"$texts/$sum.of"
  done <"$texts/files"
  for sum in $seen; do { printf '\n%s\n' "$(printf '=%.0s' {1..80})"; cat "$texts/$sum.of"; echo; cat "$texts/$sum"; } >>"$1"; done
  name=$(comm -23 <(cut -d'|' -f1 "$texts/folders" | sort -u) <(cut -d'|' -f1 "$texts/files" | sort -u))
  rm -r "$texts"
  [ -z "$name" ] || { echo "no licence in: $name" >&2; return 1; }
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
