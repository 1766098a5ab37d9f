package jobreport

import (
	"bytes"
	"cmp"
	_ "embed" // the templates
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	texttemplate "text/template"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

const (
	textWidth = 100 // columns of the text form
	textRows  = 10  // rows of its tables
	textCell  = 44  // columns of a cell
	barWidth  = 120 // pixels of the longest bar in HTML
)

// spec describes a table: the number that orders it, if any, its columns, of which the first are
// numbers, and its texts.
type spec struct {
	name        string
	by          func(g *Group) int64
	Numbers     int
	Title, Note string
	columns     string
}

func urls(g *Group) int64  { return g.URLs }
func pages(g *Group) int64 { return g.Pages }
func size(g *Group) int64  { return g.Bytes }

var specs = []spec{
	{"seeds", urls, 2, "Seeds", "With the URLs and pages found from each.", "URLs pages result seed target/cause"},
	{"seed_outcomes", urls, 1, "Outcomes of seeds", "", "seeds outcome"},
	{"seed_hosts", urls, 1, "Seeds, hosts and statuses", "", "URLs status host seed"},
	{"rate", nil, 3, "Rate", "In equal intervals, by the time of the fetch; those without one are omitted.", "URLs pages bytes from"},
	{"outcomes", urls, 2, "Outcomes", "", "URLs bytes outcome"},
	{"statuses", urls, 2, "HTTP statuses", "", "URLs bytes code"},
	{"mime", urls, 3, "MIME types", "", "URLs pages bytes type"},
	{"left_out", urls, 1, "Left out", "Not crawled or not archived. apoidea why URL explains one of them.", "URLs outcome option rule examples"},
	{"links_left_out", urls, 1, "Links left out", "Links beyond the size limits of one page.", "links page"},
	{"errors", urls, 1, "Errors", "", "URLs outcome status cause examples"},
	{"dead_links", urls, 1, "Dead links", "Pages that first led to URLs with status 404 or 410. Others may link to them too.", "URLs page examples"},
	{"copies", urls, 2, "Copies", "URLs with the same body, which is archived once.", "URLs bytes examples digest"},
	{"largest", size, 1, "Largest", "", "bytes status MIME URL"},
	{"hosts", pages, 3, "Hosts by pages", "", "URLs pages bytes host"},
	{"hosts_by_bytes", size, 3, "Hosts by bytes", "", "URLs pages bytes host"},
	{"peers", urls, 3, "Peers", "Those with records of the job in their archives.", "records pages bytes peer"},
}

var (
	//go:embed report.html.tmpl
	htmlSource string
	//go:embed report.txt.tmpl
	textSource string

	functions = map[string]any{"number": words.Thousands, "size": words.Bytes, "legible": words.Legible, "wrap": words.Wrap, "cut": cut}
	htmlForm  = template.Must(template.New("").Funcs(functions).Parse(htmlSource))
	textForm  = texttemplate.Must(texttemplate.New("").Funcs(functions).Parse(textSource))
)

// HTML writes the report as one page without external resources.
func (r *Report) HTML(w io.Writer) error { return htmlForm.Execute(w, r) }

// Text writes the report as text of at most 100 columns.
func (r *Report) Text(w io.Writer) error { return textForm.Execute(w, r) }

// Page is the name of the HTML form in a directory.
const Page = "report.html"

// Write writes a new directory with the report as HTML and JSON. An error leaves nothing.
func (r *Report) Write(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return control.Usage(fmt.Sprintf("output: %v; name a new directory", err))
	}
	var page, document bytes.Buffer
	err := errors.Join(r.HTML(&page), words.JSON(&document, r))
	for name, form := range map[string]*bytes.Buffer{Page: &page, "report.json": &document} {
		err = cmp.Or(err, os.WriteFile(filepath.Join(dir, name), form.Bytes(), 0o644)) // results are not secret
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// List has the tables with groups in their order.
func (r *Report) List() (list []*Table) {
	for _, s := range specs {
		if t := r.Tables[s.name]; len(t.Shown) > 0 {
			list = append(list, t)
		}
	}
	return list
}

// Rows has the heads of the columns and the cells of all groups, printable and limited in width.
func (t *Table) Rows(width int) [][]string {
	rows := [][]string{strings.Fields(t.columns)}
	for i := range t.Shown {
		g, n, row := &t.Shown[i], words.Thousands(t.Shown[i].URLs), []string(nil)
		cells := map[string]string{
			"URLs": n, "records": n, "links": n, "seeds": n, "pages": words.Thousands(g.Pages), "bytes": words.Bytes(g.Bytes), "host": cmp.Or(g.Host, g.Name),
			"status": cmp.Or(g.Status, "-"), "rule": cmp.Or(g.Rule, "-"), "option": cmp.Or(g.Option, "-"), "result": cmp.Or(g.Outcome, "pending"),
			"target/cause": cmp.Or(g.Detail, "-"), "cause": cmp.Or(g.Detail, "-"), "MIME": cmp.Or(g.Detail, "-"), "examples": strings.Join(g.Examples, " "),
		}
		for _, column := range rows[0] {
			row = append(row, cut(words.Legible(cmp.Or(cells[column], g.Name)), width))
		}
		rows = append(rows, row)
	}
	return rows
}

// Bar is the length of the bar of a row in pixels.
func (t *Table) Bar(row int) int {
	by, most := t.by, int64(1)
	if by == nil {
		by = urls
	}
	for i := range t.Shown {
		most = max(most, by(&t.Shown[i]))
	}
	return int(math.Ceil(float64(by(&t.Shown[row-1])) / float64(most) * barWidth))
}

// Lines are the rows for a terminal, limited to its width.
func (t *Table) Lines() (lines []string) {
	rows := t.Rows(textCell)
	if t.by != nil {
		rows = rows[:min(len(rows), textRows+1)]
	}
	var b bytes.Buffer
	_ = words.Table(&b, rows) // to memory
	for line := range strings.Lines(b.String()) {
		lines = append(lines, cut("  "+strings.TrimSuffix(line, "\n"), textWidth))
	}
	if more := t.Groups - int64(len(rows)-1); more > 0 {
		lines = append(lines, fmt.Sprintf("  and %s more", words.Thousands(more)))
	}
	return lines
}

// cut truncates a text to a width.
func cut(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}
