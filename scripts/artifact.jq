# The page of scripts/artifact.sh. $runs and $tables have {key: "INTERNET/EXPERIMENT", run} and {key, table}; $committed[0] and $here[0] are figures as in
# docs/experiments.json; $list[0] is the output of `apoidea experiment list --json`; $seconds is the time of all runs.

def number:
  if . == null then "-"
  elif . == floor and fabs < 1e15 then tostring
  elif fabs >= 100 then (. * 10 | round / 10 | tostring)
  elif fabs >= 1 then (. * 1000 | round / 1000 | tostring)
  else (. * 100000 | round / 100000 | tostring) end;
def cells(tag): map("<\(tag)>\(. // "-")</\(tag)>") | "<tr>" + join("") + "</tr>";
def table(head; rows): "<table>", (head | cells("th")), (rows | cells("td")), "</table>";
def class: "<span class=\"\(. | gsub(" "; "-"))\">\(.)</span>";
def minutes: "\(. / 60 | floor) min \(. % 60 | round) s";

# stated returns the median and bounds of a committed figure: its interval, and at least a share of it.
def stated($share):
  (if type == "array" then . else [., ., .] end) as [$median, $low, $high]
  | if $median == null then {$median} else ($median | fabs * $share + 1e-9) as $least
    | {$median, low: ([$low // $median, $median - $least] | min), high: (if type == "array" and $high == null then infinite else [$high // $median, $median + $least] | max end)} end;
def check($old; $known; $share):
  if $known | not then "new"
  else . as $v | ($old | if . == null then {} else stated($share) end) as $s
    | if $v == null or $s.median == null then (if $v == $s.median then "inside" else "outside" end)
      elif $v >= $s.low and $v <= $s.high then "inside" else "outside" end
  end;

($tables | map({key, value: .table}) | from_entries) as $table
| ($runs | sort_by([(.key | startswith("synthetic") | not), .key])) as $runs
| [$runs[] | .key as $key | $table[$key][] | . as $f
    | ($committed[0][$key][.row]) as $row
    | . + {key: $key, committed: $row[.metric], check: (.here | check($row[$f.metric]; $row | type == "object" and has($f.metric); 0.01))}] as $figures
| [$runs[].key as $key | $committed[0][$key] // {} | to_entries[] | .key as $row | .value | keys[] | . as $metric
    | select($here[0][$key][$row] | type != "object" or (has($metric) | not)) | {key: $key, row: $row, metric: $metric, committed: $committed[0][$key][$row][$metric], check: "missing"}] as $missing
| ([$figures[] | select(.check != "inside")] + $missing) as $outside
| [$figures[] | select(.verdict)] as $compared
| def interval: if .low == null and .high == null then "" else "\(.low | number) to \(.high | number)" end;
  def was: .committed | if type == "array" then "\(.[0] | number) (\(.[1] | number) to \(.[2] | number))" else number end;
  def line: [.key, .row, .metric, .unit // "", (.paper | number), (.here | number), interval, was, (.verdict // "" | if . == "" then . else class end), (.check | class)];
  ["experiment", "row", "metric", "unit", "paper", "here", "5 to 95 %", "committed", "verdict", "check"] as $head
| "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Apoidea: experiments repeated</title><style>",
  "body{font:14px/1.4 Arial,Helvetica,sans-serif;color:#1d2430;max-width:1150px;margin:24px auto;padding:0 16px}",
  "table{border-collapse:collapse;margin:8px 0 20px}th,td{border:1px solid #d5d8de;padding:2px 8px;text-align:left;vertical-align:top}th{background:#f3f4f6}",
  "summary{cursor:pointer;margin:6px 0}svg{max-width:100%;height:auto;display:block;margin:8px 0}h2{margin-top:32px}",
  ".reached,.inside{color:#00704f}.missed,.outside,.missing{color:#b04800}.new,.not-comparable{color:#666}</style></head>",
  "<body data-outside=\"\($outside | length)\"><h1>Apoidea: experiments repeated</h1>",
  "<p><b>\(if $outside == [] then "All" else "\([$figures[] | select(.check == "inside")] | length) of" end) \($figures | length + ($missing | length)) figures agree with the committed ones</b>"
    + ": each lies between the 5th and the 95th percentile of the committed draws, or within 1 % of the committed figure.",
  "Of \($compared | length) figures that a paper has too, "
    + (["reached", "missed", "not comparable"] | map(. as $v | "\([$compared[] | select(.verdict == $v)] | length) are \($v)") | join(", ")) + ".</p>",
  ($runs[0].run | table(["commit", "version", "machine", "Go", "begun", "wall time", "CPU time"];
    [.commit, .version, "\(.machine.cpu), \(.machine.cpus) cores, \(.machine.memory_bytes / 1073741824 | round) GiB, \(.machine.os)/\(.machine.arch)", .go, .begun,
      ($seconds | minutes), ([$runs[].run.cpu_seconds] | add | minutes)])),
  (if $outside == [] then empty else "<h2>Figures outside</h2>", table($head; ($outside[:200][] | line)), (if $outside | length > 200 then "<p>and \($outside | length - 200) more.</p>" else empty end) end),
  "<h2>Figures of the papers</h2>", table($head; ($compared[] | line)),
  "<h2>Runs</h2>", table(["experiment", "seed", "wall time, s", "CPU time, s", "command"];
    ($runs[] | [.key, .run.seed, (.run.seconds | round), (.run.cpu_seconds | round), "<code>" + (.run.command | map(split("/")[-1]) | join(" ") | @html) + "</code>"])),
  ($list[0][] | . as $about | [$runs[] | select(.key | endswith("/" + $about.name))] | select(. != []) | . as $mine
    | "<h2>\($about.name)</h2><p>\($about.about | @html).</p>",
      "<details><summary>Method</summary>", ($about.long | split("\n\n")[] | "<p>\(. | @html)</p>"), "</details>",
      ($mine[] | .key as $key | .run.files as $files
        | "<details><summary>All figures, \($key | split("/")[0])</summary>", table($head; ($figures[] | select(.key == $key) | line)), "</details>",
          (if $key | startswith("synthetic/") then $files[] | select(endswith(".svg")) | "<!-- svg \($key)/\(.) -->" else empty end))),
  "</body></html>"
