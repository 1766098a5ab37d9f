# Shared by the scripts beside it: sourced, not run. It gives them a directory that goes away with them ($work), the programs they need
# ($work/bin first in PATH), a web of real documentation served by nginx on loopback, and a few words to speak with.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/apoidea.XXXXXX")
export PATH="$work/bin:$PATH" CGO_ENABLED=0
mkdir -p "$work/bin"

say() { printf '%s\n' "$*" >&2; }
die() { say "$0: $*"; exit 1; }

# ending runs when the script ends, however it ends: later additions first. KEEP=1 keeps the directory to look at.
ending=()
at_end() { ending=("$1" "${ending[@]+"${ending[@]}"}"); }
finish() {
  local status=$? step
  trap - EXIT INT TERM
  for step in "${ending[@]+"${ending[@]}"}"; do eval "$step" || true; done
  if [ "${KEEP:-}" = 1 ]; then say "kept: $work"; else rm -rf "$work"; fi
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# need COMMAND PACKAGE: returns if the command is there. With APOIDEA_INSTALL=1, also set by --install as a script's first argument, it installs the Debian package.
# Otherwise it prints both names and ends the script: status 0 if the script sets $skipped, which is what it tests, and 1 if not.
if [ "${1:-}" = --install ]; then export APOIDEA_INSTALL=1; shift; fi
need() {
  command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] && return
  if [ "${APOIDEA_INSTALL:-}" != 1 ]; then
    local missing="$1 is missing (Debian package $2): install it, or rerun with --install"
    if [ -n "${skipped:-}" ]; then skip "$missing"; else die "$missing"; fi
  fi
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || die "$1 is missing: installing Debian package $2 needs root and apt-get"
  say "installing $2"
  apt-get install -y -qq --no-install-recommends "$2" >"$work/apt.log" 2>&1 ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$2"; } >"$work/apt.log" 2>&1 ||
    { tail -5 "$work/apt.log" >&2; die "Debian package $2 could not be installed"; }
}
skip() { echo "skip  $skipped: $*"; exit 0; }

# build_apoidea: apoidea, or the binary that APOIDEA names; build: that and the tools of these
# scripts.
build_apoidea() {
  if [ -n "${APOIDEA:-}" ]; then cp "$APOIDEA" "$work/bin/apoidea"; else (cd "$root" && go build -o "$work/bin/apoidea" ./cmd/apoidea); fi
}
build() {
  build_apoidea
  build_tools
}
build_tools() {
  (cd "$root" && go build -o "$work/bin/" ./scripts/walker)
  (cd "$root/scripts/bench" && go build -o "$work/bin/" ./...)
}

# trial NAME ARGUMENT...: builds apoidea and the program scripts/NAME, which does the trials, and
# runs it. What it leaves behind if it is killed itself ends with the script.
trial() {
  build_apoidea
  (cd "$root" && go build -o "$work/bin/" "./scripts/$1")
  at_end end_peers
  command "$1" --work "$work" "${@:2}" # a script may have a part of that name
}
end_peers() {
  local file pid
  find "$work" -name '*.pid' | while read -r file; do
    pid=$(cat "$file") && [[ $(readlink "/proc/$pid/exe") == "$work"/bin/* ]] && kill -9 "$pid"
  done
}

# within SECONDS COMMAND...: the command succeeds before that many seconds have passed.
within() {
  local until=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $until ] || return 1
    sleep 0.2
  done
}

# machines NAME WHAT FIRST: network namespaces $spaces-... can be made, of which FIRST is, and go
# with the script; or it says that WHAT was skipped. in_space SPACE COMMAND... has a command run in
# one; background LOG SPACE COMMAND... too, until the script ends: its id is $!, and in LOG.pid.
machines() {
  spaces=apoidea-$1-$$ skipped=$2
  [ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ] || skip "network namespaces are made by root, on Linux"
  need ip iproute2
  PATH=$PATH:/usr/sbin
  at_end 'for s in $(ip netns list | grep -o "^$spaces-[^ ]*"); do ip netns del "$s"; done'
  ip netns add "$spaces-$3" 2>"$work/ip.log" || skip "network namespaces are not available here: $(tail -1 "$work/ip.log")"
  need jq jq
  need dnsmasq dnsmasq-base
}
in_space() { local s=$1; shift; ip netns exec "$spaces-$s" "$@"; }
background() {
  ip netns exec "$spaces-$2" "${@:3}" >"$work/$1.log" 2>&1 &
  echo $! >"$work/$1.pid"
  at_end "kill $! 2>/dev/null; wait $! 2>/dev/null"
}

# doc_tree PACKAGE PATH: prints where PATH below /usr/share/doc of a Debian package lies: installed, or unpacked into a cache that stays
# ($APOIDEA_DOCS), so that nothing has to be installed for good.
doc_tree() {
  local cache=${APOIDEA_DOCS:-${TMPDIR:-/tmp}/apoidea-docs}
  if [ -e "/usr/share/doc/$2/index.html" ]; then printf '%s\n' "/usr/share/doc/$2"; return; fi
  if [ ! -e "$cache/$1/usr/share/doc/$2/index.html" ]; then
    mkdir -p "$cache/$1"
    say "fetching $1"
    (cd "$cache" && { apt-get download -qq "$1" || { [ "$(id -u)" = 0 ] && apt-get update -qq && apt-get download -qq "$1"; }; } && dpkg -x "$1"_*.deb "$1") \
      >"$work/apt.log" 2>&1 || { tail -5 "$work/apt.log" >&2; die "documentation package $1 cannot be had"; }
  fi
  printf '%s\n' "$cache/$1/usr/share/doc/$2"
}

# serve_docs NAME=DIR...: nginx serves each directory as http://NAME.docs.localhost:$docs_port/ and logs to $docs_log, one line a request:
# client host end duration status bytes "uri", times in seconds.
docs_port=${DOCS_PORT:-18780}
docs_log=$work/nginx/access.log
serve_docs() {
  need nginx nginx-light
  mkdir -p "$work/nginx"
  {
    [ "$(id -u)" = 0 ] && echo "user root;" # the directory of a script is its own
    cat <<CONF
worker_processes 1;
pid $work/nginx/pid;
error_log $work/nginx/error.log warn;
events { worker_connections 4096; }
http {
  include /etc/nginx/mime.types;
  default_type application/octet-stream;
  log_format crawl '\$remote_addr \$http_host \$msec \$request_time \$status \$body_bytes_sent "\$request_uri"';
  access_log $docs_log crawl;
  client_body_temp_path $work/nginx/body; proxy_temp_path $work/nginx/proxy; fastcgi_temp_path $work/nginx/fastcgi;
  uwsgi_temp_path $work/nginx/uwsgi; scgi_temp_path $work/nginx/scgi;
  gzip off; sendfile on; tcp_nopush on; keepalive_requests 1000000; keepalive_timeout 600s;
  server_names_hash_bucket_size 128;
  server { listen 127.0.0.1:$docs_port default_server; return 421; }
CONF
    local entry
    for entry in "$@"; do
      echo "  server { listen 127.0.0.1:$docs_port; server_name ${entry%%=*}.docs.localhost; root ${entry#*=}; index index.html; }"
    done
    echo "}"
  } >"$work/nginx/nginx.conf"
  PATH=$PATH:/usr/sbin nginx -e "$work/nginx/error.log" -c "$work/nginx/nginx.conf" || die "nginx does not start; is port $docs_port taken? (DOCS_PORT=...)"
  at_end 'kill "$(cat "$work/nginx/pid")"'
}

site() { printf 'http://%s.docs.localhost:%s/' "$1" "$docs_port"; }

# log_mark: where the log is at; log_since MARK: what came after. robots.txt is no page.
log_mark() { wc -l <"$docs_log"; }
log_since() { tail -n +"$(($1 + 1))" "$docs_log"; }
log_ok() { awk -v q='"' '$5 == 200 { u = $7; gsub(q, "", u); if (u != "/robots.txt") print "http://" $2 u }'; }

# one_worker: reads log lines; fails, and says where, if a host was asked by one address while the response to another was being sent.
# nginx keeps time in milliseconds, so that much is forgiven at each end.
one_worker() {
  awk '{ printf "%s %.3f %.3f %s\n", $2, $3 - $4, $3, $1 }' | sort -k1,1 -k2,2n | awk '
    $1 != host { host = $1; delete end }
    { for (who in end) if (who != $4 && end[who] > $2 + 0.002) {
        if (bad++ < 5) printf "%s: %s began at %s while the response to %s was sent until %.3f\n", host, $4, $2, who, end[who]
      }
      if (!($4 in end) || end[$4] < $3) end[$4] = $3 }
    END { exit bad > 0 }' >&2
}

# once: reads log lines; fails, and names some, if a URL was asked for more than once. robots.txt may be.
once() {
  awk '{ print $2, $7 }' | grep -v '"/robots.txt"$' | sort | uniq -c | awk '$1 > 1 { if (bad++ < 5) print "asked for " $1 " times:", $2, $3 } END { if (bad) print bad " URLs in all"; exit bad > 0 }' >&2
}

# found_in TABLE LINE: what the first pattern that fits says; a row is a pattern (extended regular expression), a tab and the words.
found_in() {
  local pattern says
  while IFS=$'\t' read -r pattern says; do
    if [ -n "$pattern" ] && grep -Eq -- "$pattern" <<<"$2"; then printf '%s\n' "$says"; return; fi
  done <<<"$1"
}

# check WORDS COMMAND...: runs the command and says whether what the words claim holds; a failure is remembered in $failed.
# shellcheck disable=SC2034 # read by those who source this
failed=0
# shellcheck disable=SC2034
check() {
  local words=$1
  shift
  if "$@"; then echo "ok    $words"; else echo "WRONG $words"; failed=1; fi
}

# same_set A B: the sorted files hold the same lines, or the first differences are shown.
same_set() {
  cmp -s "$1" "$2" && return
  say "$(comm -23 "$1" "$2" | wc -l) only in $1, $(comm -13 "$1" "$2" | wc -l) only in $2:"
  comm -3 "$1" "$2" | head -10 >&2
  return 1
}
export LC_ALL=C # sort and comm as the tools sort
