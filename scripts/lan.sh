#!/usr/bin/env bash
# Several machines: three peers, each in a network namespace of its own on one bridge, crawl a web that a fourth serves. First they join by what `peers --addrs`
# prints, then by multicast DNS alone (--mdns), where a peer of another network must stay apart, and a late one is found by a ring that runs. About twenty seconds.
#
#   scripts/lan.sh [addrs|mdns]...      as root on Linux; elsewhere it says that it was skipped
. "$(dirname "$0")/lib.sh"

trials=("$@")
[ $# -gt 0 ] || trials=(addrs mdns)
machines lan "several machines" web
need curl curl
build_apoidea

# The web's namespace has the bridge, and is at 10.78.0.100 on it; peer i is at 10.78.0.i.
web=10.78.0.100 peers=4
in_space web ip link add lan type bridge
in_space web ip addr add "$web/24" dev lan
in_space web ip link set lan up
in_space web ip link set lo up
for i in $(seq $peers); do
  ip netns add "$spaces-$i"
  in_space web ip link add "to$i" type veth peer name lan netns "$spaces-$i"
  in_space web ip link set "to$i" master lan up
  in_space "$i" ip addr add "10.78.0.$i/24" dev lan
  in_space "$i" ip link set lan up
  in_space "$i" ip link set lo up
done

background dns web dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user= --group= --pid-file= --listen-address="$web" --bind-interfaces \
  --local=/lab/ --address="/web.lab/$web"

# peer TRIAL I FLAG...: peer i of a trial is started; up TRIAL I: it runs, and answers.
peer() {
  local dir=$work/$1/$2 i=$2
  shift 2
  mkdir -p "$dir" && chmod 700 "$dir" # a peer's own, with what is kept of it here
  background "${dir#"$work"/}/run" "$i" apoidea run --data-dir "$dir" --allow-private --delay 5ms --dns-server "$web:53" --dashboard off "$@"
}
up() { within 20 running "$work/$1/$2" || { tail -5 "$work/$1/$2/run.log" >&2; die "peer $2 does not run"; }; }
running() { apoidea status --data-dir "$1" >"$1/status" 2>&1; }
# ring_of N DIR: the peer's ring is closed and has that many members.
ring_of() { apoidea ring --json --data-dir "$2" 2>"$work/ring.err" | jq -e --argjson n "$1" '.closed and (.members | length) == $n' >"$work/ring.out"; }
# everyone_told DIR: each member is at its own address and at no loopback, as the ring tells it.
everyone_told() { apoidea ring --json --data-dir "$1" | jq -e '[.members[].addrs[]] | all(startswith("/ip4/10.78.0.") or startswith("/ip6/")) and all(contains("127.0.0.1") | not)' >"$work/told.out"; }
# crawl_all TRIAL PORT: a web, served at that port, is crawled by the ring as a whole, each page once, and by more than one machine.
crawl_all() {
  local dir=$work/$1/1
  background "$1/web" web apoidea web serve --listen "$web:$2" --domain web.lab --hosts 9 --pages 40 --links 20 --page-bytes 8000 --error-share 0
  apoidea crawl "http://h0.web.lab:$2/" --scope "*.web.lab:$2" --wait --json --data-dir "$dir" >"$dir/crawl.json"
  in_space web curl -s "http://$web:$2/_audit" >"$work/$1/audit.json"
  check "$1: the machines crawled together, one at a time at each host, and kept to robots.txt" shared "$work/$1/audit.json"
}
shared() {
  jq -e '.totals | .distinct_urls > 100 and (.workers | length) >= 2 and .overlaps == 0 and .robots_violations == 0' "$1" >"$work/shared.out" && return
  jq -c .totals "$1" >&2
  return 1
}
down() {
  local i
  for i in "$work/$1"/*/run.pid; do kill "$(cat "$i")" 2>/dev/null || true; done
  for i in "$work/$1"/*/run.pid; do wait "$(cat "$i")" 2>/dev/null || true; done
}

trial_addrs() {
  local dir=$work/addrs entry
  peer addrs 1 --listen all
  up addrs 1
  entry=$(apoidea peers --addrs --data-dir "$dir/1")
  check "addrs: what is printed can be dialled from elsewhere" grep -q '^/ip4/10.78.0.1/tcp/.*/p2p/' <<<"$entry"
  check "addrs: loopback is not printed" eval '! grep -q 127.0.0.1 <<<"$entry"'
  check "addrs: a peer on loopback is refused, and told what to do" \
    eval "in_space 2 apoidea run --data-dir '$dir/deaf' --bootstrap '$entry' >'$dir/deaf.log' 2>&1; [ \$? = 2 ] && grep -q -- '--listen all' '$dir/deaf.log'"
  peer addrs 2 --listen all --bootstrap "$entry"
  peer addrs 3 --listen all:4001 --bootstrap "$entry"
  check "addrs: three machines are one ring" within 20 ring_of 3 "$dir/1"
  check "addrs: nobody is told of loopback" everyone_told "$dir/2"
  check "addrs: a fixed port is kept" grep -q '/ip4/10.78.0.3/tcp/4001/' "$dir/3/addrs"
  check "addrs: doctor finds nothing wrong" eval "in_space 2 apoidea doctor --data-dir '$dir/2' --contact https://lab.example/ --listen all --bootstrap '$entry' --dns-server $web:53 >'$dir/doctor' || { cat '$dir/doctor'; false; }"
  crawl_all addrs 8080
  down addrs
}

trial_mdns() {
  local dir=$work/mdns
  peer mdns 1 --mdns
  peer mdns 2 --mdns
  peer mdns 4 --mdns --network other
  up mdns 1
  check "mdns: two machines are one ring" within 30 ring_of 2 "$dir/1"
  peer mdns 3 --mdns
  check "mdns: a third finds them" within 30 ring_of 3 "$dir/1"
  check "mdns: nobody is told of loopback" everyone_told "$dir/3"
  check "mdns: another network stays apart" ring_of 1 "$dir/4"
  check "mdns: a peer that finds nobody says so" grep -q "no peer of network other found on the local network" "$dir/4/run.log"
  crawl_all mdns 8081
  down mdns
}

for trial in "${trials[@]}"; do "trial_$trial"; done
[ "$failed" = 0 ] && say "several machines: ok, $SECONDS s"
exit "$failed"
