package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

func sample() *Report {
	r := &Report{Series: []Series{{Name: "s", Columns: []string{"a", "b"}, Rows: [][]float64{{1, 2.5}, {math.NaN(), 1.0 / 3}}}}}
	r.Table.Compare("ours", "optimal", "%", 75, 92.25)
	r.Table.Add("ours", "time", "s", 0.1234567890123)
	r.Table.Add("theirs", "time", "s", math.NaN())
	r.Plots = []Plot{
		{
			Name: "lines", Title: "A & B <c>", X: "x", Y: "y", Marks: []Mark{{X: 1, Label: "now"}},
			Lines: []Line{{Label: "one", X: []float64{0, 1, 2}, Y: []float64{1, 5, math.Inf(1)}}, {Label: "two", X: []float64{0, 2}, Y: []float64{0, 3}, Dots: true}},
		},
		{Name: "log", LogX: true, LogY: true, Lines: []Line{{X: []float64{0, 10, 1000}, Y: []float64{3, 0.1, 100}, Dashed: true}}},
		{Name: "bars", Groups: []string{"g", "h"}, Bars: []Bars{{Label: "a", Values: []float64{1, 2}}, {Label: "b", Values: []float64{3}}}, YMin: 0, YMax: 10},
		{Name: "empty"},
		{Name: "log of nothing", X: "x", Y: "y", LogX: true, LogY: true, Lines: []Line{{X: []float64{0, 1}, Y: []float64{1, 0}}}},
	}
	return r
}

func TestTable(t *testing.T) {
	table := sample().Table
	data, err := table.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if rows[0]["paper"] != 75.0 || rows[1]["paper"] != nil || rows[1]["here"] != 0.123457 || rows[2]["here"] != nil || rows[0]["verdict"] != "missed" || len(rows[0]) != 6 || len(rows[1]) != 5 {
		t.Errorf("%s", data)
	}
	text := table.Text()
	want := `row     metric   unit  paper    here  low  high  verdict
ours    optimal  %        75  92.250    -     -  missed
        time     s         -   0.123    -     -
theirs  time     s         -       -    -     -
`
	if text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
	data, err = table.CSV()
	if want := "row,metric,unit,paper,here,low,high,verdict\nours,optimal,%,75,92.25,,,missed\nours,time,s,,0.123457,,,\ntheirs,time,s,,,,,\n"; err != nil || string(data) != want {
		t.Errorf("%v, got\n%swant\n%s", err, data, want)
	}
	if data, err := Table(nil).JSON(); err != nil || string(data) != "[]\n" {
		t.Errorf("empty table: %q, %v", data, err)
	}
	if v, ok := table.Find("ours", "optimal"); !ok || v != 92.25 {
		t.Errorf("found %v, %v", v, ok)
	}
	if _, ok := table.Find("theirs", "time"); ok {
		t.Error("found what was not measured")
	}
}

func TestChartsAreSound(t *testing.T) {
	for _, p := range sample().Plots {
		first := p.SVG()
		d := xml.NewDecoder(bytes.NewReader(first))
		texts := 0
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "text" {
				texts++
			}
		}
		if texts < 4 {
			t.Errorf("%s: %d texts", p.Name, texts)
		}
		if second := p.SVG(); !bytes.Equal(first, second) {
			t.Errorf("%s: drawn twice, two pictures", p.Name)
		}
		if bytes.Contains(first, []byte("NaN")) || bytes.Contains(first, []byte("Inf")) {
			t.Errorf("%s: a number that is none", p.Name)
		}
	}
}

func TestZerosOnLogAxesAreDrawn(t *testing.T) {
	p := Plot{LogX: true, LogY: true, Lines: []Line{{Label: "a", Dots: true, X: []float64{0, 10, 100}, Y: []float64{5, 0, 500}}}, Caption: strings.Repeat("seed 1, ", 40)}
	svg := string(p.SVG())
	if dots, zeros := strings.Count(svg, "<circle "), strings.Count(svg, ">0</text>"); dots != 4 || zeros != 2 {
		t.Errorf("%d dots and %d zeros on the axes:\n%s", dots, zeros, svg)
	}
	if lines := strings.Count(svg, `font-size="10"`); lines < 2 || !strings.Contains(svg, fmt.Sprintf(`height="%d"`, plotHeight+lines*captionLine)) {
		t.Errorf("caption of %d lines:\n%s", lines, svg)
	}
}

// TestDotsAreWhole draws dots at the ends of the axes and beyond YMax.
func TestDotsAreWhole(t *testing.T) {
	for _, p := range []Plot{
		{Name: "linear"}, {Name: "log", LogX: true, LogY: true}, {Name: "log and linear", LogX: true}, {Name: "bounded", YMin: 2, YMax: 50},
	} {
		p.Lines = []Line{{Label: "a", Dots: true, X: []float64{1, 10, 100}, Y: []float64{1, 10, 100}}}
		if !p.LogX {
			p.Lines[0].X[0], p.Lines[0].Y[0] = 0, 0
		}
		svg := string(p.SVG())
		if strings.Contains(svg, "clip") {
			t.Errorf("%s: clipped", p.Name)
		}
		dots := strings.Split(svg, "<circle ")[1:4] // the fourth is of the legend
		for _, dot := range dots {
			var x, y float64
			if _, err := fmt.Sscanf(strings.ReplaceAll(dot, `"`, ""), "cx=%f cy=%f", &x, &y); err != nil {
				t.Fatalf("%s: %q: %v", p.Name, dot, err)
			}
			if x < 46 || x > plotWidth-24 || y < plotTop || y > plotBase {
				t.Errorf("%s: a dot at %v, %v is outside of the axes", p.Name, x, y)
			}
		}
	}
}
