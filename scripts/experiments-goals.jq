# The first tables of docs/experiments.md. Input: all runs, each {input, run, table, name}. $part is main (ten results of the papers beside ours) or
# goals (all targets).

# The main results: paper is a figure of the paper, better the direction of a better figure; null: neither is.
def main: [
  {of: "Apoidea, figure 4", words: "speed of near sites relative to distant ones, low load", paper: 2, name: "apoidea-proximity", row: "near/far", metric: "near_over_far_low_load"},
  {of: "Apoidea, figure 5", words: "best number of threads, low load", paper: 6, name: "apoidea-threads", row: "pentium-550, low load", metric: "best_threads"},
  {of: "IPMicra, figure 4", words: "sites at a nearest crawler, 50 ms, %", paper: 75, better: "high", name: "ipmicra-probes", row: "ipmicra-50", metric: "optimal"},
  {of: "IPMicra, figure 4", words: "the same, one site per organization, distant crawlers, %", paper: 75, better: "high", name: "ipmicra-probes", row: "ipmicra-50-scattered-apart", metric: "optimal"},
  {of: "IPMicra, figure 3", words: "download time relative to random placement", paper: 0.1, better: "low", name: "ipmicra-download", row: "ipmicra-50", metric: "download_of_random"},
  {of: "IPMicra, 4.4", words: "moved subnets at their best other crawler, %", paper: 66.7, better: "high", name: "ipmicra-load", row: "relieve-least-variance", metric: "optimal"},
  {of: "Coordinates, 5.8", words: "90th percentile of download times relative to random, error 0.15, %", paper: -30.2, better: "low", name: "coordinates-strategies", row: "proxy-0.15", metric: "p90_against_random"},
  {of: "Coordinates, 5.9", words: "median fetches per server until error 0.25", paper: 64, better: "low", name: "coordinates-overhead", row: "proxy-0.25", metric: "updates_p50"},
  {of: "Coordinates, 5.1 to 5.3", words: "minutes until a slowed peer gets no assignments", paper: 7, better: "low", name: "coordinates-adapt", row: "bandwidth", metric: "stops_after"},
  {of: "Bounded bandwidth, figure 2", words: "mean use of the limit, max_d 6", paper: 0.513, name: "bandwidth", row: "paper-6", metric: "use"}
];

# verdict compares one of our figures with the paper's: "same" is within 10 %.
def verdict($m):
  if (. - $m.paper | fabs) <= 0.1 * ($m.paper | fabs) then "same"
  elif $m.better == null then (if . > $m.paper then "higher" else "lower" end)
  elif (. > $m.paper) == ($m.better == "high") then "better" else "worse" end;

# rounded keeps three decimals, one from 10 on.
def rounded: . * 1000 | round / 1000 | if fabs >= 10 then . * 10 | round / 10 else . end;

# The targets: the paper's figure, ours to reach, and its row and metric; scale turns shares into percent. addresses: the row covers sites with addresses
# (true) or without (false).
def goals: [
  {words: "IPMicra, 12 crawlers, 50 ms: optimal, %", paper: "75", goal: "-", name: "ipmicra-probes", row: "ipmicra-50", metric: "optimal"},
  {words: "the same: probes per site", paper: "2.99", goal: "-", name: "ipmicra-probes", row: "ipmicra-50", metric: "probes_per_site"},
  {words: "one site per organization, distant crawlers: optimal, %", paper: "75", goal: "67 to 82", name: "ipmicra-probes", row: "ipmicra-50-scattered-apart", metric: "optimal"},
  {words: "the same: probes per site", paper: "2.99", goal: "-", name: "ipmicra-probes", row: "ipmicra-50-scattered-apart", metric: "probes_per_site"},
  {words: "25 ms, one site per organization: optimal, %", paper: "90", goal: "81 to 99", name: "ipmicra-probes", row: "ipmicra-25-scattered", metric: "optimal"},
  {words: "the same: probes per site", paper: "6.5", goal: "-", name: "ipmicra-probes", row: "ipmicra-25-scattered", metric: "probes_per_site"},
  {words: "adaptive, sites with addresses, first 200: optimal, %", paper: "-", goal: "85 or more", name: "placement", row: "adaptive", metric: "optimal_first", scale: 100, addresses: true},
  {words: "the same: probes per site", paper: "-", goal: "3.5 or less", name: "placement", row: "adaptive", metric: "probes_first", addresses: true},
  {words: "the same: mean round trip above the nearest peer's, ms", paper: "-", goal: "5 or less", name: "placement", row: "adaptive", metric: "excess_first_ms", addresses: true},
  {words: "adaptive, sites with addresses, all: optimal, %", paper: "-", goal: "93 or more", name: "placement", row: "adaptive", metric: "optimal", scale: 100, addresses: true},
  {words: "the same: probes per site", paper: "-", goal: "2.0 or less", name: "placement", row: "adaptive", metric: "probes_per_site", addresses: true},
  {words: "the same: mean round trip above the nearest peer's, ms", paper: "-", goal: "2 or less", name: "placement", row: "adaptive", metric: "excess_ms", addresses: true},
  {words: "the same, sites not within 1 ms of a training site: optimal, %", paper: "-", goal: "-", name: "placement", row: "adaptive", metric: "optimal_unseen", scale: 100, addresses: true},
  {words: "the same: probes per site", paper: "-", goal: "-", name: "placement", row: "adaptive", metric: "probes_unseen", addresses: true},
  {words: "adaptive, sites without addresses, first 200: optimal, %", paper: "-", goal: "80 or more", name: "placement", row: "adaptive-blind", metric: "optimal_first", scale: 100, addresses: false},
  {words: "the same: probes per site", paper: "-", goal: "4.0 or less", name: "placement", row: "adaptive-blind", metric: "probes_first", addresses: false},
  {words: "the same: mean round trip above the nearest peer's, ms", paper: "-", goal: "-", name: "placement", row: "adaptive-blind", metric: "excess_first_ms", addresses: false},
  {words: "adaptive, sites without addresses, all: optimal, %", paper: "-", goal: "90 or more", name: "placement", row: "adaptive-blind", metric: "optimal", scale: 100, addresses: false},
  {words: "the same: probes per site", paper: "-", goal: "2.6 or less", name: "placement", row: "adaptive-blind", metric: "probes_per_site", addresses: false},
  {words: "the same: mean round trip above the nearest peer's, ms", paper: "-", goal: "-", name: "placement", row: "adaptive-blind", metric: "excess_ms", addresses: false},
  {words: "the same, sites not within 1 ms of a training site: optimal, %", paper: "-", goal: "-", name: "placement", row: "adaptive-blind", metric: "optimal_unseen", scale: 100, addresses: false},
  {words: "the same: probes per site", paper: "-", goal: "-", name: "placement", row: "adaptive-blind", metric: "probes_unseen", addresses: false},
  {words: "adaptive: mean download time relative to the oracle's", paper: "-", goal: "1.1 or less", name: "placement", row: "adaptive", metric: "download_of_oracle"},
  {words: "coordinates: probes per site", paper: "0", goal: "0", name: "placement", row: "coordinates", metric: "probes_per_site"},
  {words: "coordinates, error 0.15: 90th percentile relative to random, %", paper: "-30", goal: "-30 or less", name: "coordinates-strategies", row: "proxy-0.15", metric: "p90_against_random"},
  {words: "the same relative to geographic, %", paper: "-38", goal: "-38 or less", name: "coordinates-strategies", row: "proxy-0.15", metric: "p90_against_geo"},
  {words: "adaptive: 90th percentile relative to random, %", paper: "-", goal: "-45 or less", name: "coordinates-strategies", row: "adaptive", metric: "p90_against_random"},
  {words: "the same relative to geographic, %", paper: "-", goal: "-50 or less", name: "coordinates-strategies", row: "adaptive", metric: "p90_against_geo"},
  {words: "coordinates: fetches by estimators, median per server, error 0.25", paper: "64", goal: "48 to 80", name: "coordinates-overhead", row: "proxy-0.25", metric: "updates_p50"},
  {words: "the same, error 0.15", paper: "193", goal: "145 to 241", name: "coordinates-overhead", row: "proxy-0.15", metric: "updates_p50"},
  {words: "a peer's downloads take five times as long: coordinates stop assignments after, min", paper: "7", goal: "-", name: "coordinates-adapt", row: "bandwidth", metric: "stops_after"},
  {words: "the same: faster than geographic again after, min", paper: "12", goal: "-", name: "coordinates-adapt", row: "bandwidth", metric: "faster_than_geo_after"},
  {words: "the same: adaptive stops assignments after, min", paper: "-", goal: "1", name: "coordinates-adapt", row: "bandwidth-adaptive", metric: "stops_after"},
  {words: "the same: faster than geographic again after, min", paper: "-", goal: "2", name: "coordinates-adapt", row: "bandwidth-adaptive", metric: "faster_than_geo_after"}
];

. as $runs
| (reduce .[].input as $i ([]; if any(.[]; . == $i) then . else . + [$i] end)) as $inputs
| if $part == "main" then
    "| paper | figure | paper's | " + ($inputs | join(" | ")) + " | ours is |",
    "|" + ([range(4 + ($inputs | length)) | " --- |"] | join("")),
    (main[] as $m
      | [$inputs[] as $i | [$runs[] | select(.input == $i and .name == $m.name) | .table[] | select(.row == $m.row and .metric == $m.metric) | .here][0]] as $here
      | "| \($m.of) | \($m.words) | \($m.paper) | " + ($here | map(if . == null then "-" else rounded | tostring end) | join(" | "))
        + " | " + ([$here[] | values | verdict($m)] | if unique | length < 2 then .[:1] else . end | join(", ")) + " |")
  else
    "| figure | paper's | target | " + ($inputs | join(" | ")) + " |",
    "|" + ([range(3 + ($inputs | length)) | " --- |"] | join("")),
    (goals[] as $g
      | [$inputs[] as $i
          | ([$runs[] | select(.input == $i and .name == $g.name)][0]) as $r
          # Without addresses the plain row covers sites without them.
          | (if $g.addresses == null then $g.row
             elif $g.addresses then (if $r.run.inputs.addresses then $g.row else null end)
             elif $r.run.inputs.addresses then $g.row else "adaptive" end) as $row
          | if $r == null then ""
            else ([$r.table[] | select(.row == $row and .metric == $g.metric)][0]) as $f
              | if $f == null then "" elif $f.here == null then "never" else ($f.here * ($g.scale // 1) | rounded | tostring) end
            end] as $here
      | select(any($here[]; . != ""))
      | "| \($g.words) | \($g.paper) | \($g.goal) | " + ($here | join(" | ")) + " |")
  end
