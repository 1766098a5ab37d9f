# The first table of docs/experiments.md: the figures to be reached, beside what was found. Input: all runs, each {input, run, table, name}.

# What is asked for: words, the paper's figure, ours to reach, and where it is found; scale makes shares percent. sites: which rows speak of sites
# that have addresses, and which of sites that have none.
def goals: [
  {words: "IPMicra, 12 crawlers, 50 ms, as in the paper: optimal, %", paper: "75", goal: "-", name: "ipmicra-probes", row: "ipmicra-50", metric: "optimal"},
  {words: "the same: probes a site", paper: "2.99", goal: "-", name: "ipmicra-probes", row: "ipmicra-50", metric: "probes_per_site"},
  {words: "each site of another organisation, crawlers far apart: optimal, %", paper: "75", goal: "67 to 82", name: "ipmicra-probes", row: "ipmicra-50-scattered-apart", metric: "optimal"},
  {words: "the same: probes a site", paper: "2.99", goal: "-", name: "ipmicra-probes", row: "ipmicra-50-scattered-apart", metric: "probes_per_site"},
  {words: "25 ms, each site of another organisation: optimal, %", paper: "90", goal: "81 to 99", name: "ipmicra-probes", row: "ipmicra-25-scattered", metric: "optimal"},
  {words: "the same: probes a site", paper: "6.5", goal: "-", name: "ipmicra-probes", row: "ipmicra-25-scattered", metric: "probes_per_site"},
  {words: "adaptive, sites with addresses, the first 200: optimal, %", paper: "-", goal: "85 or more", name: "placement", row: "adaptive", metric: "optimal_first", scale: 100, addresses: true},
  {words: "the same: probes a site, all counted", paper: "-", goal: "3.5 or fewer", name: "placement", row: "adaptive", metric: "probes_first", addresses: true},
  {words: "the same: mean round trip beyond the nearest peer's, ms", paper: "-", goal: "5 or less", name: "placement", row: "adaptive", metric: "excess_first_ms", addresses: true},
  {words: "adaptive, sites with addresses, all: optimal, %", paper: "-", goal: "93 or more", name: "placement", row: "adaptive", metric: "optimal", scale: 100, addresses: true},
  {words: "the same: probes a site, all counted", paper: "-", goal: "2.0 or fewer", name: "placement", row: "adaptive", metric: "probes_per_site", addresses: true},
  {words: "the same: mean round trip beyond the nearest peer's, ms", paper: "-", goal: "2 or less", name: "placement", row: "adaptive", metric: "excess_ms", addresses: true},
  {words: "the same, sites not within 1 ms of one that trained: optimal, %", paper: "-", goal: "-", name: "placement", row: "adaptive", metric: "optimal_unseen", scale: 100, addresses: true},
  {words: "the same: probes a site", paper: "-", goal: "-", name: "placement", row: "adaptive", metric: "probes_unseen", addresses: true},
  {words: "adaptive, sites without addresses, the first 200: optimal, %", paper: "-", goal: "80 or more", name: "placement", row: "adaptive-blind", metric: "optimal_first", scale: 100, addresses: false},
  {words: "the same: probes a site, all counted", paper: "-", goal: "4.0 or fewer", name: "placement", row: "adaptive-blind", metric: "probes_first", addresses: false},
  {words: "the same: mean round trip beyond the nearest peer's, ms", paper: "-", goal: "-", name: "placement", row: "adaptive-blind", metric: "excess_first_ms", addresses: false},
  {words: "adaptive, sites without addresses, all: optimal, %", paper: "-", goal: "90 or more", name: "placement", row: "adaptive-blind", metric: "optimal", scale: 100, addresses: false},
  {words: "the same: probes a site, all counted", paper: "-", goal: "2.6 or fewer", name: "placement", row: "adaptive-blind", metric: "probes_per_site", addresses: false},
  {words: "the same: mean round trip beyond the nearest peer's, ms", paper: "-", goal: "-", name: "placement", row: "adaptive-blind", metric: "excess_ms", addresses: false},
  {words: "the same, sites not within 1 ms of one that trained: optimal, %", paper: "-", goal: "-", name: "placement", row: "adaptive-blind", metric: "optimal_unseen", scale: 100, addresses: false},
  {words: "the same: probes a site", paper: "-", goal: "-", name: "placement", row: "adaptive-blind", metric: "probes_unseen", addresses: false},
  {words: "adaptive: mean download time beside the oracle's", paper: "-", goal: "1.1 or less", name: "placement", row: "adaptive", metric: "download_of_oracle"},
  {words: "coordinates: probes a site", paper: "0", goal: "0", name: "placement", row: "coordinates", metric: "probes_per_site"},
  {words: "coordinates, error 0.15: 90th percentile against random, %", paper: "-30", goal: "-30 or less", name: "coordinates-strategies", row: "proxy-0.15", metric: "p90_against_random"},
  {words: "the same against geographic, %", paper: "-38", goal: "-38 or less", name: "coordinates-strategies", row: "proxy-0.15", metric: "p90_against_geo"},
  {words: "adaptive: 90th percentile against random, %", paper: "-", goal: "-45 or less", name: "coordinates-strategies", row: "adaptive", metric: "p90_against_random"},
  {words: "the same against geographic, %", paper: "-", goal: "-50 or less", name: "coordinates-strategies", row: "adaptive", metric: "p90_against_geo"},
  {words: "coordinates: fetches by estimators, median a server, error 0.25", paper: "64", goal: "48 to 80", name: "coordinates-overhead", row: "proxy-0.25", metric: "updates_p50"},
  {words: "the same, error 0.15", paper: "193", goal: "145 to 241", name: "coordinates-overhead", row: "proxy-0.15", metric: "updates_p50"},
  {words: "a peer's downloads take five times as long, coordinates: assignments to it stop after, min", paper: "7", goal: "-", name: "coordinates-adapt", row: "bandwidth", metric: "stops_after"},
  {words: "the same: faster than geographic again after, min", paper: "12", goal: "-", name: "coordinates-adapt", row: "bandwidth", metric: "faster_than_geo_after"},
  {words: "the same, adaptive: assignments to it stop after, min", paper: "-", goal: "1", name: "coordinates-adapt", row: "bandwidth-adaptive", metric: "stops_after"},
  {words: "the same: faster than geographic again after, min", paper: "-", goal: "2", name: "coordinates-adapt", row: "bandwidth-adaptive", metric: "faster_than_geo_after"}
];

. as $runs
| (reduce .[].input as $i ([]; if any(.[]; . == $i) then . else . + [$i] end)) as $inputs
| "| what | paper | to reach | " + ($inputs | join(" | ")) + " |",
  "|" + ([range(3 + ($inputs | length)) | " --- |"] | join("")),
  (goals[] as $g
    | [$inputs[] as $i
        | ([$runs[] | select(.input == $i and .name == $g.name)][0]) as $r
        # Where no site has an address the plain row is the blind one.
        | (if $g.addresses == null then $g.row
           elif $g.addresses then (if $r.run.inputs.addresses then $g.row else null end)
           elif $r.run.inputs.addresses then $g.row else "adaptive" end) as $row
        | if $r == null then ""
          else ([$r.table[] | select(.row == $row and .metric == $g.metric)][0]) as $f
            | if $f == null then "" elif $f.here == null then "never" else ($f.here * ($g.scale // 1) * 1000 | round / 1000 | if fabs >= 10 then . * 10 | round / 10 else . end | tostring) end
          end] as $here
    | select(any($here[]; . != ""))
    | "| \($g.words) | \($g.paper) | \($g.goal) | " + ($here | join(" | ")) + " |")
