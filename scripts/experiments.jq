# A section of docs/experiments.md. Input: the runs of an experiment, each {input, name, run, table}, the synthetic internet first. $name is the experiment's,
# $list[0] the output of `apoidea experiment list --json`.

# number rounds to at most three decimals and four significant digits.
def number:
  if . == null then "-"
  elif . == floor and (. | fabs) < 1e15 then tostring
  elif fabs >= 1000 then (round | tostring)
  elif fabs >= 10 then (. * 10 | round / 10 | tostring)
  elif fabs >= 0.1 then (. * 1000 | round / 1000 | tostring)
  else (. * 100000 | round / 100000 | tostring) end;
# figure is a row of a table, with the 5th and 95th percentile of its draws if these differ.
def figure:
  if . == null then "-"
  elif .low == null and .high == null or .low == .high then .here | number
  else "\(.here | number) (\(.low | number) to \(if .high == null then "never" else .high | number end))" end;
def bar: "| " + join(" | ") + " |";
def rule: [.[] | "---"] | bar;
def text: gsub("\\|"; "\\|") | gsub("<"; "&lt;");

. as $runs
| ($list[0][] | select(.name == $name)) as $about
# The metrics of a table in their order, and all rows and metrics that any input has.
| ([$runs[].table[]] | reduce .[] as $r ({order: [], seen: {}}; ($r.row + "\u0000" + $r.metric) as $k
    | if .seen[$k] then . else .seen[$k] = true | .order += [{row: $r.row, metric: $r.metric, unit: $r.unit}] end) | .order) as $keys
| ([$runs[] | .table | map({key: (.row + "\u0000" + .metric), value: .}) | from_entries]) as $by
| ($keys | map(. as $k | ($k.row + "\u0000" + $k.metric) as $id
    | {row, metric, unit, paper: ([$by[][$id].paper | values][0]), here: [$by[] | .[$id] // null]})) as $figures
| ($runs | map(.input)) as $inputs
| def long(rows): (["row", "metric", "unit", "paper"] + $inputs) as $head
    | ($head | bar), ($head | rule), (rows[] | [.row, .metric, .unit, (.paper | number)] + [.here[] | figure] | bar);
  # wide has a line per row and a column per metric, for one input.
  def wide(rows; $i):
    (rows | map({metric, unit}) | reduce .[] as $m ([]; if any(.[]; .metric == $m.metric) then . else . + [$m] end)) as $metrics
    | (rows | map(.row) | reduce .[] as $r ([]; if any(.[]; . == $r) then . else . + [$r] end)) as $names
    | (["row"] + ($metrics | map(.metric + ", " + .unit))) as $head
    | ($head | bar), ($head | rule),
      ($names[] as $r | [$r] + [$metrics[].metric as $m | ([rows[] | select(.row == $r and .metric == $m)][0] | if . == null then "" else .here[$i].here | number end)] | bar);
  "<!-- \($name) -->",
  "### \($name)",
  "",
  ($about.about[:1] | ascii_upcase) + $about.about[1:] + ".",
  "",
  ($about.long | text),
  "",
  "Seed \($runs[0].run.seed)" + ([$runs[] | select(.run.cpu_seconds) | "\(.input) \(.run.cpu_seconds | ceil) s"] | if length > 0 then "; CPU time: " + join(", ") else "" end) + ".",
  ([$figures[] | select(.paper != null)] as $compared
    | if ($compared | length) > 0 then "", long($compared) else empty end),
  ([$figures[] | select(.paper == null)] as $others
    | if ($others | length) == 0 then empty
      elif ($others | length) <= 24 then "", long($others)
      else
        (($others | map(.metric) | unique | length) * ($others | map(.row) | unique | length)) as $cells
        | range($inputs | length) as $i
        | [$others[] | select(.here[$i].here != null)] as $mine
        | select(($mine | length) > 0)
        | "", "<details><summary>\(if any($figures[]; .paper != null) then "All other figures" else "All figures" end), \($inputs[$i])</summary>", "",
          (if $cells <= 2 * ($others | length) then wide($mine; $i)
           else (["row", "metric", "unit", "here"] | bar), (["row", "metric", "unit", "here"] | rule), ($mine[] | [.row, .metric, .unit, (.here[$i] | figure)] | bar) end),
          "", "</details>"
      end)
