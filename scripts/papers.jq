# The table of a paper's figures in docs/papers.md. Input: scripts/papers.json. $paper is its name, $ours[0] docs/experiments.json.

# number rounds to four significant digits.
def number:
  if . == null then "-"
  elif type == "string" then .
  elif . == 0 then "0"
  elif fabs >= 1000 then round | tostring | if length > 4 then .[:-3] + "," + .[-3:] else . end
  elif fabs >= 10 then . * 10 | round / 10 | tostring
  elif fabs >= 0.1 then . * 1000 | round / 1000 | tostring
  else . * 100000 | round / 100000 | tostring end;
# middle is a figure, or the median of its draws.
def middle: if type == "array" then .[0] else . end;
def shown: if type == "array" and .[1] != .[2] then "\(.[0] | number) (\(.[1] | number) to \(if .[2] == null then "never" else .[2] | number end))" else middle | number end;
# judged is the verdict of a figure relative to the published one.
def judged($published; $tolerance):
  middle | if . == null then "not comparable" elif (. - $published | fabs) <= $tolerance * ($published | fabs) then "reached" else "missed" end;

# text is a text, or parts of it: a part that is an array is a figure and what follows it. Its experiment is on the synthetic
# internet unless another input is named ("changes/freshness").
def text: if type == "array" then map(if type == "array" then ($ours[0][.[0] | if contains("/") then . else "synthetic/" + . end][.[1]][.[2]] | shown) + .[3] else . end) | join("") else . end;

map(select(.paper == $paper)) | .[]
| . as $f
| (if .of then [("synthetic", "aws-21", "planetlab-490") as $input | $ours[0][$input + "/" + $f.of[0]] | select(. != null) | .[$f.of[1]][$f.of[2]]] else [] end) as $values
| (.verdict // ($values[0] | judged($f.published; $f.tolerance // 0.1))) as $verdict
| [.figure, .source, "\(.published | number)\(if .unit == "" or (.published | type) == "string" then "" else " " + .unit end)",
   (if .ours then .ours | text else $values | map(shown) | join(" / ") end), .fitted, $verdict, (if .command | startswith("experiment") then "`\(.command)`" else .command end), (.why | text)]
| "| " + join(" | ") + " |"
