#!/usr/bin/env bash
# WARC files read by two tools that are not ours: npm's warcio, and nlnwa/gowarc in its strict mode. Both must read every record without a
# complaint, find every digest right, and count the same records of each type. Neither reads Zstandard: such files are unpacked by zstd, which has
# to find a frame for each record, and in each its size and a checksum.
#
#   scripts/warc-check.sh DIR|FILE...        of a DIR, all *.warc, *.warc.gz and *.warc.zst below it
. "$(dirname "$0")/lib.sh"

warcio=2.4.11

[ $# -gt 0 ] || die "no directory or file given"
files=()
for arg in "$@"; do
  [ -e "$arg" ] || die "$arg is not there"
  if [ -d "$arg" ]; then mapfile -t -O ${#files[@]} files < <(find "$arg" -type f \( -name '*.warc' -o -name '*.warc.gz' -o -name '*.warc.zst' \) | sort); else files+=("$arg"); fi
done
[ ${#files[@]} -gt 0 ] || die "no WARC file in $*"
mapfile -t files < <(realpath "${files[@]}")

need node nodejs
need npm npm
(cd "$root/scripts/warccheck" && go build -o "$work/bin/" .)
mkdir -p "$work/npm"
cp "$root/scripts/warccheck/check.mjs" "$work/npm/"
(cd "$work/npm" && npm install --no-audit --no-fund --silent "warcio@$warcio") >"$work/npm.log" 2>&1 || { tail -5 "$work/npm.log" >&2; die "npm install warcio failed"; }

status=0
frames=()
for i in "${!files[@]}"; do
  case ${files[i]} in *.zst) ;; *) continue ;; esac
  need zstd zstd
  plain=$work/$i-$(basename "${files[i]}" .zst)
  zstd -q -d -o "$plain" "${files[i]}" || die "zstd cannot read ${files[i]}"
  seen=$(zstd -lv "${files[i]}")
  grep -q '^Decompressed Size:' <<<"$seen" && grep -q '^Check: XXH64' <<<"$seen" || { say "${files[i]}: a frame without its size or a checksum"; status=1; }
  files[i]=$plain frames[i]=$(sed -n 's/^# Zstandard Frames: //p' <<<"$seen")
done
node "$work/npm/check.mjs" "${files[@]}" >"$work/js.txt" || { say "warcio complains"; status=1; }
warccheck "${files[@]}" >"$work/go.txt" || { say "gowarc complains"; status=1; }
lines=$("$work/npm/node_modules/.bin/warcio" index "${files[@]}" | wc -l)
for i in "${!frames[@]}"; do
  n=$("$work/npm/node_modules/.bin/warcio" index "${files[i]}" | wc -l)
  [ "$n" = "${frames[i]}" ] || { say "${files[i]}: ${frames[i]} frames for $n records"; status=1; }
done
records=$(awk '{ n += $2 } END { print n + 0 }' "$work/js.txt")
[ "$lines" = "$records" ] || { say "warcio index lists $lines records, warcio reads $records"; status=1; }
cmp -s "$work/js.txt" "$work/go.txt" || { say "the record counts differ (warcio left, gowarc right):"; diff -y -W 60 "$work/js.txt" "$work/go.txt" >&2 || true; status=1; }
echo "${#files[@]} files, $records records: $(tr '\n' ' ' <"$work/js.txt")"
[ $status = 0 ] && echo "read by warcio $warcio and gowarc without a complaint, digests right, counts equal"
exit $status
