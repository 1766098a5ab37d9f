package jobreport

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/node/ops/export/extsort"
)

const (
	maxMemory   = 8 << 20 // bytes of sums in memory; more are sorted on disk
	maxText     = 4096    // bytes of a text of a Group
	maxExamples = 3       // of a Group
	maxShown    = 50      // groups of a Table
)

// Group counts URLs with a common property.
type Group struct {
	key
	URLs     int64    `json:"urls"`               // of a seed: those found from it
	Pages    int64    `json:"pages,omitempty"`    // outcomes ok and duplicate
	Bytes    int64    `json:"bytes,omitempty"`    // of bodies
	Outcome  string   `json:"outcome,omitempty"`  // of a seed, with the status; empty: pending
	Detail   string   `json:"detail,omitempty"`   // redirect target of a seed, cause of a failure, or MIME type
	Option   string   `json:"option,omitempty"`   // flag that changes a rule
	Examples []string `json:"examples,omitempty"` // at most three URLs, the first by name
}

// key distinguishes groups. Its fields are the first in JSON, so lines of a group are adjacent when
// sorted.
type key struct {
	Table  string `json:"table,omitempty"` // only in the sorter
	Name   string `json:"name"`
	Host   string `json:"host,omitempty"`
	Status string `json:"status,omitempty"` // HTTP status; in seed_hosts the outcome of a URL without
	Rule   string `json:"rule,omitempty"`   // that left URLs out, for people
}

// Table has the first groups of a list.
type Table struct {
	spec   `json:"-"`
	Groups int64   `json:"groups"` // number of all groups
	URLs   int64   `json:"urls"`   // sum over all groups; in links_left_out of links
	Shown  []Group `json:"shown"`  // at most 50
}

func (t *Table) add(g Group) {
	t.Groups, t.URLs = t.Groups+1, t.URLs+g.URLs
	if t.Shown = append(t.Shown, g); len(t.Shown) > 4*maxShown {
		t.trim()
	}
}

func (t *Table) trim() {
	if t.by != nil {
		slices.SortFunc(t.Shown, func(a, b Group) int {
			return cmp.Or(cmp.Compare(t.by(&b), t.by(&a)), cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Name, b.Name), strings.Compare(a.Host, b.Host), strings.Compare(a.Status, b.Status))
		})
	}
	t.Shown = t.Shown[:min(len(t.Shown), maxShown)]
}

// merge adds o. The result does not depend on the order of merges.
func (g *Group) merge(o *Group) {
	g.URLs, g.Pages, g.Bytes = g.URLs+o.URLs, g.Pages+o.Pages, g.Bytes+o.Bytes
	g.Outcome, g.Detail = max(g.Outcome, o.Outcome), max(g.Detail, o.Detail)
	g.Examples = slices.Concat(g.Examples, o.Examples)
	slices.Sort(g.Examples)
	g.Examples = slices.Compact(g.Examples)
	g.Examples = g.Examples[:min(len(g.Examples), maxExamples)]
}

// sums counts by keys of unlimited number: parts in memory, which are sorted and merged.
type sums struct {
	parts map[key]*Group
	size  int             // of parts in bytes, estimated
	lines *extsort.Sorter // groups in JSON
	err   error           // the first
}

func text(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "\ufffd") }

// add adds a part of a sum to a table, unless it has no name.
func (s *sums) add(table, name string, g Group) {
	g.Table, g.Name, g.Rule, g.Detail = table, text(name), text(g.Rule), text(g.Detail)
	if had := s.parts[g.key]; had != nil {
		had.merge(&g)
	} else if name != "" {
		s.parts[g.key] = &g
		s.size += 500 + len(g.Name) + len(g.Host) + len(g.Rule) + len(g.Detail) + maxExamples*len(strings.Join(g.Examples, ""))
	}
	if s.size > maxMemory {
		s.flush()
	}
}

// flush moves the parts to the sorter.
func (s *sums) flush() {
	for _, g := range s.parts {
		raw, err := json.Marshal(g)
		s.err = cmp.Or(s.err, err, s.lines.Add(raw))
	}
	clear(s.parts)
	s.size = 0
}

// each calls fn for each sum in the order of tables and names.
func (s *sums) each(ctx context.Context, fn func(g Group)) error {
	s.flush()
	var sum Group
	err := s.lines.Each(ctx, func(line []byte) error {
		var part Group
		err := json.Unmarshal(line, &part)
		if part.key == sum.key {
			sum.merge(&part)
			return err
		}
		if sum.Table != "" {
			fn(sum)
		}
		sum = part
		return err
	})
	if sum.Table != "" {
		fn(sum)
	}
	return cmp.Or(s.err, err)
}
