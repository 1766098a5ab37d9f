#!/usr/bin/env bash
# `apoidea doctor` on a healthy set-up, with its peer running and stopped, and on broken ones, each with one thing wrong: the check of that thing must fail with its
# cure, and no other. Two peers and a name server (dnsmasq) on loopback; about half a minute.
#
#   scripts/doctor.sh
. "$(dirname "$0")/lib.sh"

need jq jq
need dnsmasq dnsmasq-base
build_apoidea

port=${DOCTOR_PORT:-18790} dns=127.0.0.1:${DOCTOR_DNS_PORT:-18791}
contact=(--contact https://crawler.example/)

# up NAME FLAG...: a peer that runs until the script ends, or down NAME.
up() {
  local name=$1
  shift
  apoidea run --data-dir "$work/$name" --dashboard off "${contact[@]}" "$@" >"$work/$name.log" 2>&1 &
  echo $! >"$work/$name.pid"
  at_end "{ kill -CONT \$(cat '$work/$name.pid') && kill \$(cat '$work/$name.pid'); } 2>/dev/null"
  within 60 serves "$name" || { tail -5 "$work/$name.log" >&2; die "peer $name does not serve"; }
}
serves() { apoidea status --json --data-dir "$work/$1" 2>/dev/null | jq -e '.ring.stable and .state == "idle"' >"$work/serves"; }
down() {
  kill "$(cat "$work/$1.pid")"
  wait "$(cat "$work/$1.pid")" || true
}

up first --listen "/ip4/127.0.0.1/tcp/$port"
entry=$(head -1 "$work/first/addrs")
/usr/bin/env PATH="$PATH:/usr/sbin" dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user= --group= --pid-file= --listen-address=127.0.0.1 \
  --bind-interfaces --port="${dns##*:}" --local=/test/ --txt-record="_dnsaddr.seed.test,dnsaddr=$entry" >"$work/dnsmasq.log" 2>&1 &
dnsmasq=$!
at_end "kill $dnsmasq"
way=(--dns-server "$dns" --dns-seed seed.test --bootstrap "$entry")
up second --listen "/ip4/127.0.0.1/tcp/$((port + 2))" "${way[@]}"

# says FILTER [ARG]...: the filter holds of what was found.
says() { jq -e "$@" "$work/found.json" >"$work/jq.out"; }
# healthy WORDS FLAG...: nothing is wrong.
healthy() {
  local words=$1
  shift
  local status=0
  apoidea doctor --json "$@" >"$work/found.json" 2>"$work/found.err" || status=$?
  check "$words: exit code 0" [ $status = 0 ]
  check "$words: every check is ok" says '.ok and (.checks | length >= 12) and all(.checks[]; .verdict == "ok")'
  [ $status = 0 ] || jq -c '.checks[] | select(.verdict != "ok")' "$work/found.json" >&2
}
# broken WORDS CHECK CURE FLAG...: that check fails, its cure matches, and nothing else fails.
broken() {
  local words=$1 name=$2 cure=$3
  shift 3
  local status=0
  apoidea doctor --json "$@" >"$work/found.json" 2>"$work/found.err" || status=$?
  check "$words: exit code 1" [ $status = 1 ]
  check "$words: $name fails, and nothing else" says --arg name "$name" '[.checks[] | select(.verdict == "fail") | .check] == [$name]'
  check "$words: the cure says $cure" says --arg name "$name" --arg cure "$cure" '.checks[] | select(.check == $name) | .cure | test($cure)'
  jq -r --arg name "$name" '.checks[] | select(.check == $name) | "      " + .found + "\n      cure: " + .cure' "$work/found.json"
}

listen=(--listen "/ip4/127.0.0.1/tcp/$((port + 2))")
b=(--data-dir "$work/second" "${contact[@]}" "${way[@]}" --dashboard off "${listen[@]}")
healthy "a peer that runs" "${b[@]}"
kill -STOP "$(cat "$work/second.pid")"
broken "a peer that is stopped" peer 'SIGSTOP' "${b[@]}"
kill -CONT "$(cat "$work/second.pid")"
down second
healthy "the same, not running" "${b[@]}"

fresh=(--data-dir "$work/fresh" --dashboard off)
broken "a seed that nobody has set up" "DNS seed" "dig TXT _dnsaddr.sed.test @$dns" "${fresh[@]}" "${contact[@]}" --dns-server "$dns" --dns-seed sed.test
broken "a name server that is not there" "DNS resolver" '--dns-server HOST:PORT' "${fresh[@]}" "${contact[@]}" --dns-server "127.0.0.1:$((port + 4))"
broken "an entry peer that is gone" "entry peers" 'its port is open' "${fresh[@]}" "${contact[@]}" --bootstrap "${entry/tcp\/$port/tcp\/$((port + 3))}"
broken "an entry peer of another network" "entry peers" '--network' "${fresh[@]}" "${contact[@]}" --network other --bootstrap "$entry"
broken "a disk that is full" disk '--disk-reserve' "${fresh[@]}" "${contact[@]}" --disk-reserve 900TiB
echo "no directory" >"$work/file"
broken "a data directory that cannot be" "data directory" '--data-dir' "${contact[@]}" --dashboard off --data-dir "$work/file/peer"
broken "a port that is taken" ports 'ss -ltnup' "${fresh[@]}" "${contact[@]}" --listen "/ip4/127.0.0.1/tcp/$port"
broken "an address of another machine" ports 'this machine has ' "${fresh[@]}" "${contact[@]}" --listen "/ip4/192.0.2.1/tcp/$port"
(ulimit -n 200 && broken "few descriptors" descriptors 'ulimit -n' "${fresh[@]}" "${contact[@]}" && exit $failed) || failed=1
broken "no contact in public" contact '--contact' "${fresh[@]}" --profile public --dns-server "$dns"
printf 'delay = "2s"\nfetcher = 9\n' >"$work/wrong.toml"
broken "a key that is none" configuration 'that line' "${fresh[@]}" "${contact[@]}" --config "$work/wrong.toml"
touch -d '+3 hours' "$work/second/addrs"
broken "a clock that was set back" clock 'timedatectl' "${b[@]}"
exit $failed
