#!/usr/bin/env bash
# The first hour of a newcomer: every example of every --help is typed as it stands, by somebody who has cloned the repository and built it, on a machine of its own (a
# network namespace) that has the rest of an internet around it: sites such as https://example.org with certificates, a resolver, and a ring that the name
# seeds.example.org leads into. Each has to succeed and to print what it promises. What the pages say to type, typed.sh types (README.md, docs/volunteer.md, docs/researcher.md)
# and public.sh (docs/founder.md); --pages has them run as well. Some minutes.
#
#   scripts/newcomer.sh [--pages]      as root on Linux; elsewhere it says that it was skipped
export TMPDIR=${TMPDIR:-/var/tmp} # /tmp is what the examples write to
. "$(dirname "$0")/lib.sh"
skipped="a newcomer's first hour"

# Not typed, and why: a pattern (extended regular expression) and the reason.
not_typed='
experiment run 	takes minutes, or needs a matrix of round trips; experiments.sh runs them
--latency rtt\.csv\.gz	needs a matrix of round trips; placement.sh has one
ssh there	needs a second machine; lan.sh has some
ring (invite|revoke|accept)	needs a ring by invitation; public.sh has one
--dns-seed seeds\.example\.net	needs another ring than that of the example before it
'
# Promised: a pattern of the example, and one of what it prints.
promised='
cluster up .*--web --until-idle	pages, .*; WARC files|nothing left to fetch
cluster up .*--until-idle --json	"pages"
cluster status --dir .* --json	"running"
^apoidea run .*--until-idle	[0-9]+ pages, 
^apoidea crawl .*--wait	state +done
^apoidea (crawl|jobs$)	[0-9a-f]{32}
^apoidea status$	ring
^apoidea ring$	consistent
^apoidea job keys	[0-9a-f]{32} +12D3Koo
ring lookup	12D3Koo
^apoidea why 	owner
^apoidea limits set	 \(was
^apoidea limits	bandwidth|paused|works|limit
^apoidea pause	paused
^apoidea check$	^ok: 
^apoidea doctor	contact
^apoidea config show	contact
^apoidea leave	left|ended
seed show$	given|in, |out, 
seed zone	TXT
^apoidea dashboard	http://127\.0\.0\.1:
_audit	"robots_violations": ?0
'

if [ "${1:-}" != --inside ]; then
  [ "$(uname)" = Linux ] && [ "$(id -u)" = 0 ] || skip "a machine of its own is made by root, on Linux"
  need ip iproute2
  PATH=$PATH:/usr/sbin
  unshare --net --mount true 2>/dev/null || skip "namespaces are not available here"
  need dnsmasq dnsmasq-base
  need nginx nginx-light
  need openssl openssl
  need jq jq
  need curl curl
  need git git
  git clone -q "$root" "$work/clone"
  for v in GOCACHE GOMODCACHE GOPATH; do export "$v=$(go env $v)"; done
  (cd "$work/clone" && go build -o "$work/bin/apoidea" ./cmd/apoidea)
  mkdir "$work/home"
  export WORK=$work
  HOME=$work/home timeout --foreground 900 unshare --net --mount -- "$work/clone/scripts/newcomer.sh" --inside || failed=1
  if [ "${1:-}" = --pages ]; then
    "$root/scripts/typed.sh" README.md docs/volunteer.md docs/researcher.md || failed=1
    "$root/scripts/public.sh" || failed=1
  fi
  [ "$failed" = 0 ] && say "a newcomer's first hour: ok, $SECONDS s"
  exit "$failed"
fi

# On the machine.
export PATH=$WORK/bin:$PATH:/usr/sbin
unset TMPDIR XDG_DATA_HOME
site=30.1.0.1
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /srv
ip link set lo up
ip link add wan type veth peer name far && ip link set far up
ip addr add $site/24 dev wan
ip link set wan up
ip route add default dev wan
mkdir -p "$work/www/docs" "$work/www/private" "$HOME/.config/fish/completions"
cd "$work"
for page in index.html docs/index.html docs/more.html private/index.html docs/x.pdf news; do
  printf '<title>%s</title><p>%s says what it says. <a href=/docs/>docs</a> <a href=/docs/more.html>more</a> <a href=/docs/x.pdf>pdf</a> <a href=/private/>p</a> <a href=/news>n</a>\n' "$page" "$page" >"$work/www/$page"
done
names=DNS:example.org,DNS:a.example,DNS:b.example,DNS:news.a.example
{
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=lab -keyout "$work/ca.key" -out "$work/ca.pem"
  openssl req -newkey rsa:2048 -nodes -subj /CN=example.org -keyout "$work/site.key" -out "$work/site.csr"
  openssl x509 -req -in "$work/site.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -days 2 -extfile <(echo "subjectAltName=$names") -out "$work/site.pem"
} >"$work/openssl.log" 2>&1
export SSL_CERT_FILE=$work/ca.pem
cat >"$work/nginx.conf" <<CONF
user root; worker_processes 1; pid $work/nginx.pid; error_log $work/nginx.log warn;
events { worker_connections 256; }
http {
  include /etc/nginx/mime.types; access_log off; client_body_temp_path $work/nginx-body;
  server { listen $site:80; listen $site:443 ssl; ssl_certificate $work/site.pem; ssl_certificate_key $work/site.key; root $work/www; index index.html; }
  server { listen 127.0.0.1:8080; root $work/www; index index.html; }
}
CONF
# in_background NAME COMMAND...: as in a terminal of its own; ended NAME [SIGNAL]: Ctrl-C there.
set -m
declare -A terminal=()
in_background() {
  local name=$1
  shift
  eval "exec $*" >"$work/$name.out" 2>&1 </dev/null &
  terminal[$name]=$!
}
ended() {
  [ -n "${terminal[$1]:-}" ] || return 0
  kill "-${2:-INT}" "${terminal[$1]}" 2>/dev/null || true
  wait "${terminal[$1]}" 2>/dev/null || true
  unset "terminal[$1]"
}
at_end 'for name in "${!terminal[@]}"; do ended "$name" TERM; done; for d in /tmp/ring "$HOME"/*/ .; do [ -e "$d/peer1" ] && apoidea cluster down --quiet --dir "$d"; done; kill "$(cat "$work/nginx.pid" 2>/dev/null)" 2>/dev/null'
until_so() { within 40 "$@" >/dev/null 2>&1; }
in_background founder apoidea run --profile public --contact https://you.example/ --listen /ip4/$site/tcp/4001 --reachability public --found --admission open --dashboard off --data-dir "$work/founder"
until_so apoidea status --data-dir "$work/founder" || die "the ring is not founded: $(tail -3 "$work/founder.out")"
entry=$(apoidea peers --addrs --data-dir "$work/founder" | grep -m 1 /tcp/)
in_background dns dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user= --group= --pid-file= --listen-address=127.0.0.1 --bind-interfaces \
  "--address=/example/$site" "--address=/example.org/$site" "'--txt-record=_dnsaddr.seeds.example.org,dnsaddr=$entry'"
echo nameserver 127.0.0.1 >"$work/resolv.conf"
mount --bind "$work/resolv.conf" /etc/resolv.conf

# The examples, once each, lines that go on joined.
apoidea man "$work/man"
awk '/^\.SH EXAMPLE/ { f = 1; next } /^\.EE/ { f = 0 } f && /^  / { sub(/^ +/, ""); gsub(/\\\\/, "\\"); gsub(/\\f[BPI]/, ""); gsub(/\\-/, "-")
  if (sub(/ *\\$/, "")) { held = held $0 " "; next } print held $0; held = "" }' "$work"/man/*.1 | awk '!met[$0]++' >"$work/examples"
declare -A done_with=()
# typed EXAMPLE: types one.
typed() {
  local line=$1 want status=0
  line=${line//\/ip4\/192.0.2.9\/tcp\/4001\/p2p\/12D3KooW.../$entry}
  line=${line//192.0.2.7/$site}
  line=${line//3f2a/${job:-3f2a}}
  done_with[$1]=1
  case $line in
    *'web serve '* | *'seed serve '* | *'ring --watch'* | 'apoidea run '*)
      if [[ $line != *--until-idle* ]]; then
        ended foreground
        in_background foreground "$line"
        sleep 3
        kill -0 "${terminal[foreground]}" 2>/dev/null || { tail -5 "$work/foreground.out"; check "$1" false; }
        return
      fi ;;
  esac
  timeout 120 bash -c "set -e; $tools
    $line" >"$work/out" 2>&1 </dev/null || status=$?
  want=$(found_in "$promised" "$1")
  if [ $status != 0 ] || ! grep -Eq -- "${want:-.?}" "$work/out" && [ -n "$want" ]; then
    tail -20 "$work/out"
    check "$1 (exit code $status${want:+, wanted: $want})" false
  fi
}
# What a newcomer's machine has beside.
tools='xdg-open() { curl -sf "$1" >opened; }; rsvg-convert() { cat >picture; }; fpath=("" "$HOME");'
# scene WORDS PATTERN: types all that fit and were not typed yet.
scene() {
  local line n=0 before=$failed
  failed=0
  while IFS= read -r line; do
    if [ -n "${done_with[$line]:-}" ] || ! grep -Eq -- "$2" <<<"$line" || [ -n "$(found_in "$not_typed" "$line")" ]; then continue; fi
    typed "$line"
    n=$((n + 1))
  done <"$work/examples"
  [ $n -gt 0 ] || check "$1: an example fits $2" false
  [ $failed = 0 ] && echo "ok    $1: $n examples"
  failed=$((failed | before))
}
scene "without a peer" '^(source <\()?apoidea (version|completion|man|config init|experiment list)'
scene "its configuration" '^apoidea config'
printf 'page,host,unix_s\n0,0,1700000000\n0,0,1700090000\n1,0,1700000000\n' | gzip >pages.csv.gz
scene "a synthetic web" 'apoidea web serve|web\.localhost:8080|_audit'
ended foreground
until_so nginx -e "$work/nginx.log" -c "$work/nginx.conf" || die "nginx does not start: $(cat "$work/nginx.log")"
scene "a crawl that ends" '^apoidea run .*--until-idle'
scene "a cluster" '^apoidea cluster up .*--until-idle'
for what in up status down; do scene "a cluster that runs: $what" "^apoidea cluster $what .*--dir"; done
scene "a cluster in the usual place" '^apoidea cluster up -n 4'
apoidea cluster up -n 5 --quiet >"$work/up" 2>&1
for what in add 'kill 2 5 &&' 'kill 3' 'leave' 'kill 2 5$' 'kill 2 &&'; do scene "its peers: $what" "^apoidea cluster $what"; done
apoidea cluster down --quiet >"$work/down" 2>&1 || true
printf '# two sites\nhttps://a.example/\nhttps://b.example/docs/\n' >list.txt
scene "a peer of one's own" '^apoidea run https://example\.org/ --contact [^ ]*$'
until_so apoidea status || check "it runs: $(tail -3 "$work/foreground.out")" false
mv "$work/foreground.out" "$work/peer.out"
terminal[peer]=${terminal[foreground]}
unset "terminal[foreground]"
scene "jobs" '^apoidea (crawl|jobs)'
job=$(apoidea crawl --max-depth 9 --scope '*' https://a.example/ --quiet)
job=${job:0:12}
for what in pause resume refresh show report cancel keys; do scene "a job: $what" "^apoidea job $what"; done
scene "pages again" '^apoidea refresh'
scene "looking" '^apoidea (status|peers|host|why|ring( |$)(lookup|graph|hosts|$)?)'
ended foreground
scene "results" '^apoidea export'
scene "limits" '^apoidea (limits|pause|resume)'
apoidea limits set schedule=default bandwidth=default only-when-idle=default pause-on-battery=default >"$work/limits"
apoidea resume >"$work/resume"
scene "sites that wish not to be crawled" '^apoidea optout'
scene "the page" 'dashboard'
apoidea config init apoidea.toml >"$work/init"
scene "what works and what does not" '^apoidea doctor'
scene "the end of a peer" '^apoidea leave'
ended peer
mkdir -p /srv/crawl
apoidea run --until-idle --quiet --data-dir /srv/crawl --contact https://me.example/crawler https://b.example/ >"$work/crawl" 2>&1
scene "data that lies there" '^apoidea (check|repair)'
scene "a ring by its name" '^apoidea run --dns-seed seeds\.example\.org'
ended foreground
ended dns TERM # which has the port
scene "a name server for it" 'apoidea seed serve --zone seeds\.example\.org'
sleep 62 # it writes what it knows once a minute
scene "what it tells" 'apoidea seed (show|zone)'
ended foreground
in_background lab apoidea run --dashboard off
until_so apoidea status
scene "a name server of a lab" 'apoidea seed serve --zone ring\.test'
terminal[names]=${terminal[foreground]}
unset "terminal[foreground]"
scene "a peer that finds the lab by it" '^apoidea run --dns-seed ring\.test'
until_so grep -Eq "ring of [2-9]" "$work/foreground.out" || check "it finds the ring: $(tail -2 "$work/foreground.out")" false
while IFS= read -r line; do
  if [ -n "${done_with[$line]:-}" ]; then continue; fi
  why=$(found_in "$not_typed" "$line")
  if [ -n "$why" ]; then echo "skip  $line    # $why"; else check "typed: $line" false; fi
done <"$work/examples"
while IFS=$'\t' read -r pattern _; do
  if [ -n "$pattern" ] && ! grep -Eq -- "$pattern" "$work/examples"; then check "an example fits $pattern" false; fi
done <<<"$not_typed$promised"
exit "$failed"
