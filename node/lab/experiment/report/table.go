package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Row is one figure of a table.
type Row struct {
	Row    string `json:"row"`    // what was run
	Metric string `json:"metric"` // what was measured
	Unit   string `json:"unit"`   // of both figures; empty for a plain number
	// Paper is the paper's figure, nil if it gives none.
	Paper *float64 `json:"paper"`
	Here  *float64 `json:"here"` // nil where it could not be measured
}

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
}

// Brief returns a short table whole, else the first figures of each row and the paper's.
func (t Table) Brief() (brief Table) {
	const short, few = 60, 3 // figures of a table, and of a row
	seen := make(map[string]int)
	for _, r := range t {
		if seen[r.Row]++; len(t) <= short || seen[r.Row] <= few || r.Paper != nil {
			brief = append(brief, r)
		}
	}
	return brief
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

// CSV returns the table with a header.
func (t Table) CSV() ([]byte, error) {
	rows := [][]string{{"row", "metric", "unit", "paper", "here"}}
	for _, r := range t {
		rows = append(rows, []string{r.Row, r.Metric, r.Unit, cell(r.Paper), cell(r.Here)})
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
	rows := [][]string{{"row", "metric", "unit", "paper", "here"}}
	last := ""
	for _, r := range t {
		name := r.Row
		if name == last {
			name = ""
		}
		last = r.Row
		rows = append(rows, []string{name, r.Metric, r.Unit, readable(r.Paper), readable(r.Here)})
	}
	var width [5]int
	for _, row := range rows {
		for i, text := range row {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "%s  %s  %s  %s | %s\n", pad(row[0], width[0]), pad(row[1], width[1]), pad(row[2], width[2]), pad(row[3], -width[3]), pad(row[4], -width[4]))
		if i == 0 {
			total := width[0] + width[1] + width[2] + width[3] + width[4] + 9
			b.WriteString(strings.Repeat("-", total) + "\n")
		}
	}
	return b.String()
}

// pad fills up to a width, on the left if negative.
func pad(text string, width int) string {
	fill := strings.Repeat(" ", max(0, max(width, -width)-utf8.RuneCountInString(text)))
	if width < 0 {
		return fill + text
	}
	return text + fill
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
