package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Row is one figure of a table.
type Row struct {
	Row    string `json:"row"`    // what was run
	Metric string `json:"metric"` // what was measured
	Unit   string `json:"unit"`   // of the figures; empty for a plain number
	// Paper is the paper's figure, nil if it gives none.
	Paper *float64 `json:"paper"`
	Here  *float64 `json:"here"` // nil where it could not be measured
	// Low and High are the 5th and the 95th percentile of the draws of which Here is the median.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	// Verdict compares Here with Paper; empty without Paper.
	Verdict Verdict `json:"verdict,omitempty"`
}

// Verdict is the result of a comparison with a paper.
type Verdict string

// A figure is reached within a tolerance, by default a tenth of the paper's figure. It is not
// comparable if it was not measured, or was fitted to the paper.
const (
	Reached        Verdict = "reached"
	Missed         Verdict = "missed"
	NotComparable  Verdict = "not comparable"
	usualTolerance         = 0.1
	// NotCompared is the tolerance of a figure that is not comparable.
	NotCompared = -1
)

// Table holds the figures of an experiment.
type Table []Row

// digits are the significant digits that a table keeps: more would be noise, and differ between
// machines.
const digits = 6

func rounded(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	v, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return nil
	}
	return &v
}

// Add appends a figure without one of the paper. A NaN is omitted.
func (t *Table) Add(row, metric, unit string, here float64) {
	*t = append(*t, Row{Row: row, Metric: metric, Unit: unit, Here: rounded(here)})
}

// Compare appends a figure and the paper's, NaN if it gives none.
func (t *Table) Compare(row, metric, unit string, paper, here float64) {
	*t = append(*t, Row{Row: row, Metric: metric, Unit: unit, Paper: rounded(paper), Here: rounded(here)})
	if t.Within(usualTolerance); math.IsInf(here, 0) && !math.IsNaN(paper) {
		(*t)[len(*t)-1].Verdict = Missed // it never happened
	}
}

// Within judges the last figure with a tolerance: a share of the paper's figure, or NotCompared.
func (t Table) Within(tolerance float64) {
	r := &t[len(t)-1]
	switch {
	case r.Paper == nil:
	case r.Here == nil || tolerance < 0:
		r.Verdict = NotComparable
	case math.Abs(*r.Here-*r.Paper) <= tolerance*math.Abs(*r.Paper):
		r.Verdict = Reached
	default:
		r.Verdict = Missed
	}
}

// Drawn appends the median of the draws of a figure, with their 5th and 95th percentiles, and the
// paper's figure. Draws that are NaN are left out.
func (t *Table) Drawn(row, metric, unit string, paper float64, draws []float64) {
	draws = slices.DeleteFunc(slices.Sorted(slices.Values(draws)), math.IsNaN)
	t.Compare(row, metric, unit, paper, interpolated(draws, 0.5))
	if len(draws) > 1 {
		r := &(*t)[len(*t)-1]
		r.Low, r.High = rounded(interpolated(draws, 0.05)), rounded(interpolated(draws, 0.95))
	}
}

// Brief returns at most ten lines: the figures that the paper has too and their verdicts, or
// without any the first figures of each row.
func (t Table) Brief() string {
	const lines, few = 10, 3 // lines in all, and figures of a row without the paper's
	verdicts, rows, figures := make(map[Verdict]int), []string(nil), make(map[string][]string)
	for _, r := range t {
		verdicts[r.Verdict]++
	}
	compared := len(t) - verdicts[""]
	for _, r := range t {
		text := fmt.Sprintf("%s %s %s", r.Metric, readable(r.Here), r.Unit)
		if compared > 0 {
			text = fmt.Sprintf("%s (paper %s: %s)", text, readable(r.Paper), r.Verdict)
		}
		if compared > 0 && r.Verdict == "" || compared == 0 && len(figures[r.Row]) == few {
			continue
		}
		if figures[r.Row] == nil {
			rows = append(rows, r.Row)
		}
		figures[r.Row] = append(figures[r.Row], text)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d figures of papers: %d reached, %d missed, %d not comparable", compared, verdicts[Reached], verdicts[Missed], verdicts[NotComparable])
	if shown := min(len(rows), lines-1); shown < len(rows) {
		fmt.Fprintf(&b, "; %d of %d rows are shown", shown, len(rows))
		rows = rows[:shown]
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "\n%s: %s", row, strings.Join(figures[row], "; "))
	}
	return b.String() + "\n"
}

// Find returns a figure; false if it is absent or was not measured.
func (t Table) Find(row, metric string) (float64, bool) {
	for _, r := range t {
		if r.Row == row && r.Metric == metric && r.Here != nil {
			return *r.Here, true
		}
	}
	return 0, false
}

// JSON returns the table as a list of rows.
func (t Table) JSON() ([]byte, error) {
	if t == nil {
		t = Table{}
	}
	b, err := json.MarshalIndent(t, "", "  ")
	return append(b, '\n'), err
}

var columns = []string{"row", "metric", "unit", "paper", "here", "low", "high", "verdict"}

// CSV returns the table with a header.
func (t Table) CSV() ([]byte, error) {
	rows := [][]string{columns}
	for _, r := range t {
		rows = append(rows, []string{r.Row, r.Metric, r.Unit, cell(r.Paper), cell(r.Here), cell(r.Low), cell(r.High), string(r.Verdict)})
	}
	return csvBytes(rows)
}

func csvBytes(rows [][]string) ([]byte, error) {
	var b bytes.Buffer
	err := csv.NewWriter(&b).WriteAll(rows)
	return b.Bytes(), err
}

func cell(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// Text returns the table for reading: numbers right-aligned, the paper's beside ours, and each row
// name once.
func (t Table) Text() string {
	rows := [][]string{columns}
	last := ""
	for _, r := range t {
		name := r.Row
		if name == last {
			name = ""
		}
		last = r.Row
		rows = append(rows, []string{name, r.Metric, r.Unit, readable(r.Paper), readable(r.Here), readable(r.Low), readable(r.High), string(r.Verdict)})
	}
	width := make([]int, len(columns))
	for _, row := range rows {
		for i, text := range row {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, text := range row {
			fill := strings.Repeat(" ", width[i]-utf8.RuneCountInString(text))
			if numeric := 3 <= i && i <= 6; numeric {
				text = fill + text
			} else {
				text += fill
			}
			line.WriteString(text + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// readable rounds a number for reading.
func readable(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v == math.Trunc(*v) && math.Abs(*v) < 1e15:
		return strconv.FormatFloat(*v, 'f', -1, 64)
	case math.Abs(*v) >= 1000:
		return strconv.FormatFloat(*v, 'f', 0, 64)
	case math.Abs(*v) >= 0.1:
		return strconv.FormatFloat(*v, 'f', 3, 64)
	default:
		return strconv.FormatFloat(*v, 'g', 3, 64)
	}
}

// Series are figures over an axis such as time, in a file of their own.
type Series struct {
	Name    string      // of the file, without .csv
	Columns []string    // their names, the first is the axis
	Names   []string    // printed for 0, 1, ... in the first column; nil prints the numbers
	Rows    [][]float64 // as many figures in each as there are columns
}

// NewSeries returns a series with only its axis.
func NewSeries(name, axis string, at []float64) Series {
	s := Series{Name: name, Rows: make([][]float64, len(at))}
	s.Column(axis, at)
	return s
}

// Column appends figures, one per point of the axis.
func (s *Series) Column(name string, values []float64) {
	s.Columns = append(s.Columns, name)
	for i, v := range values {
		s.Rows[i] = append(s.Rows[i], v)
	}
}

// Line returns a column over the axis.
func (s *Series) Line(label string, column int) Line {
	l := Line{Label: label}
	for _, row := range s.Rows {
		l.Add(row[0], row[column])
	}
	return l
}

// SeriesOf returns a series over the common Y values of lines: one column of X values per line,
// named by its label and behind.
func SeriesOf(name, axis, behind string, lines []Line) Series {
	s := NewSeries(name, axis, lines[0].Y)
	for _, l := range lines {
		s.Column(l.Label+behind, l.X)
	}
	return s
}

// CSV returns the series with a header.
func (s *Series) CSV() ([]byte, error) {
	rows := [][]string{s.Columns}
	for _, values := range s.Rows {
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = cell(rounded(v))
		}
		if s.Names != nil {
			row[0] = s.Names[int(values[0])]
		}
		rows = append(rows, row)
	}
	return csvBytes(rows)
}
