#!/usr/bin/env bash
# A public ring from nothing: machines in network namespaces that act as an internet, with public addresses, a resolver, a name server of a ring (`seed serve`) and two
# homes behind routers with NAT. Three founders make a ring; five volunteers, of whom two sit in the homes, join it by name alone and crawl; a founder dies, the seed
# forgets it, and a sixth volunteer joins. What is typed are the lines of docs/founder.md, with the addresses of these machines. Two to four minutes.
#
#   scripts/public.sh         as root on Linux; elsewhere it says that it was skipped
#   scripts/public.sh --earn  a ring by invitation: a member is invited, volunteers crawl as workers and earn membership, and the member is revoked. Two minutes.
#   scripts/public.sh --pair  a founder and a second peer alone: each learns from the other that it can be dialled, and says that it does not know before. Three minutes.
. "$(dirname "$0")/lib.sh"

machines public "a public ring" net
need nft nftables
need dig bind9-dnsutils
need curl curl
build_apoidea

# The namespace "net" is the internet: a bridge, to which each machine is connected with one public address, and asks for all others.
in_space net ip link add internet type bridge
in_space net ip link set internet up
# machine NAME ADDRESS: is connected to the internet.
machine() {
  ip netns add "$spaces-$1"
  in_space net ip link add "$1" type veth peer name wan netns "$spaces-$1"
  in_space net ip link set "$1" master internet up
  in_space "$1" ip addr add "$2/32" dev wan
  in_space "$1" ip link set wan up
  in_space "$1" ip link set lo up
  in_space "$1" ip route add default dev wan
}
# home NAME ADDRESS: a machine behind a router that has that address, and lets nothing in that nobody asked for.
home() {
  machine "$1-router" "$2"
  ip netns add "$spaces-$1"
  in_space "$1-router" ip link add lan type veth peer name lan netns "$spaces-$1"
  in_space "$1-router" ip addr add 192.168.1.1/24 dev lan
  in_space "$1-router" ip link set lan up
  in_space "$1-router" sysctl -qw net.ipv4.ip_forward=1
  in_space "$1-router" nft -f - <<'N' || skip "there is no NAT here"
table ip home {
  chain out { type nat hook postrouting priority 100; oifname "wan" masquerade; }
  chain in { type filter hook forward priority 0; policy drop; iifname "lan" accept; ct state established,related accept; }
}
N
  in_space "$1" ip addr add 192.168.1.10/24 dev lan
  in_space "$1" ip link set lan up
  in_space "$1" ip link set lo up
  in_space "$1" ip route add default via 192.168.1.1
}
machine web 30.1.0.1
machine dns 31.1.0.1
machine seed 32.1.0.1
for i in 1 2 3 4 5 6; do machine "m$i" "2$i.1.0.1"; done
machine m7 27.1.0.1
home h1 28.1.0.1
home h2 29.1.0.1

# The lines of the page, in their order.
mapfile -t lines < <(awk '/^    / && (blank || inside) { inside = 1; print substr($0, 5) } { if (!/^    /) inside = 0; blank = /^$/ }' "$root/docs/founder.md")
[ ${#lines[@]} = 11 ] || die "docs/founder.md has ${#lines[@]} lines to type, and 11 are typed here"
entry=
# told N PREFIX: line N of the page, which has to begin so, with what stands for addresses there made those of these machines.
told() {
  local line=${lines[$1]//\/ip4\/192.0.2.9\/tcp\/4001\/p2p\/12D3KooW.../$entry}
  [[ $line = "$2"* ]] || die "docs/founder.md: line $1 to type is $line, and $2 was expected"
  printf '%s\n' "${line//192.0.2.7/32.1.0.1}"
}
zone=seeds.example.org
background dns dns dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user= --group= --pid-file= --listen-address=31.1.0.1 --bind-interfaces \
  --cache-size=0 --server="/$zone/32.1.0.1" --local=/lab/ --address=/web.lab/30.1.0.1
background web web apoidea web serve --listen 30.1.0.1:80 --domain web.lab --hosts 72 --pages 15 --links 15 --error-share 0

# peer NAME N FLAG...: the peer of line N of the page, on that machine, with these flags.
peer() {
  local name=$1 line
  line=$(told "$2" "apoidea run --profile public --contact https://you.example/crawler")
  shift 2
  mkdir -p "$work/$name" && chmod 700 "$work/$name"
  # shellcheck disable=SC2086 # words of a line that was typed
  background "$name/run" "$name" $line --data-dir "$work/$name" --dns-server 31.1.0.1:53 --dashboard off "$@"
}
# typed NAME N PREFIX FLAG...: line N of the page is typed on that machine, with these flags.
typed() {
  local name=$1 line
  line=$(told "$2" "$3")
  shift 3
  # shellcheck disable=SC2086 # as above
  in_space "$name" $line "$@"
}
up() { within 30 eval "apoidea status --data-dir '$work/$1' >'$work/$1/status' 2>&1" || { tail -5 "$work/$1/run.log" >&2; die "$1 does not run"; }; }
ring_of() { apoidea ring --json --data-dir "$work/$2" 2>"$work/ring.err" | jq -e --argjson n "$1" '.closed and (.members | length) == $n' >"$work/ring.out"; }
given() { typed seed 7 "apoidea seed show" --json --data-dir "$work/seed" 2>"$work/given.err" | jq '[.peers[] | select(.given != "out")] | length'; }
# works NAME: a volunteer serves, or is attached to members of the ring.
works() { apoidea status --json --data-dir "$work/$1" | jq -e '.ring.members >= 2' >"$work/works.out"; }
reached() { apoidea status --json --data-dir "$work/$1" | jq -e --arg how "$2" '.reached == $how' >"$work/reached.out"; }
attached() { for name in m4 m5 m6 h1 h2; do works $name || return 1; done; }
whole() {
  jq -e '.totals | .overlaps == 0 and .robots_violations == 0 and .distinct_urls > 250' "$1" >"$work/whole.out" && return
  jq -c .totals "$1" >&2
  return 1
}

volunteers() {
  jq -e '.totals.workers | (. - ["21.1.0.1", "22.1.0.1", "23.1.0.1"]) == . and index("28.1.0.1") and index("29.1.0.1")' "$1" >"$work/volunteers.out" && return
  jq -c .totals "$1" >&2
  return 1
}

# A ring by invitation: a member is invited, volunteers earn membership by verified work, and the invited member is revoked.
id_of() { apoidea status --json --data-dir "$work/$1" | jq -r .peer; }
member() { apoidea status --json --data-dir "$work/$1" | jq -e --argjson is "$2" '.admission.member == $is and (.admission.mode == "invite")' >"$work/member.out"; }
if [ "${1:-}" = --earn ]; then
  peer m1 0 --promote 20s
  up m1
  entry=$(typed m1 1 "apoidea peers --addrs" --data-dir "$work/m1" | grep -m 1 /tcp/)
  peer m2 2
  up m2
  check "the second peer is a worker" within 30 member m2 false
  lines[3]="apoidea ring invite $(id_of m2)"
  check "the founder invites it" eval "typed m1 3 'apoidea ring invite 12D3KooW' --data-dir '$work/m1' >'$work/invite.out'"
  check "it is a member" within 30 ring_of 2 m1
  lines[2]=${lines[2]/ --reachability public/}
  for name in m4 m5 m6; do peer $name 2; done
  for name in m4 m5 m6; do up $name; done
  for name in m1 m2; do typed $name 4 "apoidea pause" --data-dir "$work/$name" >"$work/pause.out"; done
  # shellcheck disable=SC2046 # words
  in_space m4 apoidea crawl $(seq -f 'http://h%.0f.web.lab/' 0 47) --wait --json --data-dir "$work/m4" >"$work/crawl.json"
  in_space web curl -s http://30.1.0.1/_audit >"$work/audit.json"
  check "volunteers crawl, one at a time at each host" jq -e '.totals | .overlaps == 0 and .distinct_urls > 250' "$work/audit.json"
  typed m1 9 "apoidea peers --trust" --data-dir "$work/m1" | tee "$work/trust" >&2
  check "their pages are checked, and all checks agree" eval '[ "$(awk "NR > 1 && \$7 >= 10 && \$NF == 0" "$work/trust" | wc -l)" -ge 1 ]'
  check "a volunteer has earned membership" within 120 eval 'member m4 true || member m5 true || member m6 true'
  check "the founder revokes the member" apoidea ring revoke "$(id_of m2)" --data-dir "$work/m1"
  check "it is a worker again" within 60 member m2 false
  [ "$failed" = 0 ] && say "a ring by invitation: ok, $SECONDS s"
  exit "$failed"
fi

# Two at public addresses: one who dials back is enough where there are no more, and he is asked again after two minutes.
if [ "${1:-}" = --pair ]; then
  lines=("${lines[@]/ --reachability public/}")
  peer m1 0
  up m1
  entry=$(typed m1 1 "apoidea peers --addrs" --data-dir "$work/m1" | grep -m 1 /tcp/)
  peer m2 2
  up m2
  sleep 30
  check "after 30 s neither says more than that it is not known yet" eval 'reached m1 unknown && reached m2 unknown'
  check "doctor says the same" eval '{ apoidea doctor --data-dir "$work/m2" || true; } | grep -q "not confirmed"'
  check "both learn that they can be dialled" within 240 eval 'reached m1 direct && reached m2 direct'
  [ "$failed" = 0 ] && say "a ring of two: ok, $SECONDS s"
  exit "$failed"
fi

# Founders: the first alone, the others by its address.
peer m1 0
up m1
entry=$(typed m1 1 "apoidea peers --addrs" --data-dir "$work/m1")
check "the first founder tells its public address" grep -q '^/ip4/21.1.0.1/tcp/4001/p2p/' <<<"$entry"
entry=$(grep -m 1 /tcp/ <<<"$entry")
peer m2 2
peer m3 2
for name in m2 m3; do
  up $name
  lines[3]="apoidea ring invite $(apoidea status --json --data-dir "$work/$name" | jq -r .peer)"
  check "the founder invites $name" eval "typed m1 3 'apoidea ring invite 12D3KooW' --data-dir '$work/m1' >'$work/invite.out'"
done
check "three founders are a ring" within 30 ring_of 3 m1
mkdir -p "$work/seed" && chmod 700 "$work/seed"
# shellcheck disable=SC2046 # words of a line that was typed
background seed seed $(told 5 "apoidea seed serve --zone $zone") --listen 32.1.0.1:53 --every 5s --data-dir "$work/seed"
check "the name leads to all three" within 30 eval '[ "$(given)" = 3 ]'

check "who asks for the name is told of them" [ "$(typed m4 6 "dig +short TXT _dnsaddr.$zone" @31.1.0.1 | grep -c dnsaddr=/ip4/2[123].1.0.1/)" -ge 3 ]

# Volunteers know the name alone.
for name in m4 m5 m6 h1 h2; do peer $name 8; done
for name in m4 m5 m6 h1 h2; do up $name; done
check "none of them says that nobody can dial it before anybody tried" eval '! grep -l "cannot" "$work"/{m4,m5,m6,h1,h2}/{run.log,status}'
check "five volunteers have joined by the name alone, two of them in homes" within 30 attached
# Founders on rented machines keep the records, and leave the crawl to the volunteers.
for name in m1 m2 m3; do typed $name 4 "apoidea pause" --data-dir "$work/$name" >"$work/pause.out"; done
# All are as near to the site, so that chance has a part in who gets a host: of 24, in one run of fifty or so, a home gets none. Then it gets another 24.
for first in 0 24 48; do
  # shellcheck disable=SC2046 # words
  in_space m4 apoidea crawl $(seq -f 'http://h%.0f.web.lab/' $first $((first + 23))) --wait --json --data-dir "$work/m4" >"$work/crawl.json"
  in_space web curl -s http://30.1.0.1/_audit >"$work/audit.json"
  volunteers "$work/audit.json" 2>/dev/null && break
done
check "they crawl together, each page once, one at a time at each host" whole "$work/audit.json"
check "the volunteers crawl, those in homes too, and no founder that pauses" volunteers "$work/audit.json"
check "who can be dialled knows it" within 30 eval 'reached m4 direct && reached m5 direct && reached m6 direct'
check "a home is relayed to" within 30 eval 'reached h1 relayed && reached h2 relayed'

# A founder dies.
{ kill -9 "$(cat "$work/m2/run.pid")" && wait "$(cat "$work/m2/run.pid")"; } 2>"$work/killed" || true
check "the seed forgets the dead founder" within 30 eval '[ "$(given)" = 2 ]'
check "the ring closes without it" within 60 ring_of 2 m1
peer m7 8
up m7
check "a sixth volunteer joins" within 30 works m7
check "a founder leaves in good order" typed m3 10 "apoidea leave" --data-dir "$work/m3"
[ "$failed" = 0 ] && say "a public ring: ok, $SECONDS s"
exit "$failed"
