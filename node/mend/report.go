package mend

import (
	"fmt"
	"strings"
)

// The areas of findings.
const (
	Database = "database"
	Records  = "records"
	Archive  = "archive"
	Index    = "index"
	Beside   = "files"
)

// Finding is one thing that is wrong, and what it means for the crawl. The JSON names are a
// contract.
type Finding struct {
	Area  string `json:"area"`            // part of the data directory, see the areas
	Where string `json:"where,omitempty"` // a file, a host or a job
	Found string `json:"found"`           // what is wrong
	Means string `json:"means"`           // what that means for the crawl
	// URLs that it is about, the first of URLsTotal.
	URLs      []string `json:"urls,omitempty"`
	URLsTotal int      `json:"urls_total,omitempty"` // how many it is about
	// Note says that it may be as it should, as a crash leaves it.
	Note bool `json:"note,omitempty"`
}

const (
	// maxNamed bounds the URLs that a finding keeps, urlsShown those in a line for people.
	maxNamed  = 10_000
	urlsShown = 5
)

// String says in a line where it is, what is wrong and some of the URLs.
func (f *Finding) String() string {
	text := f.Area
	if f.Where != "" {
		text += " " + f.Where
	}
	text += ": " + f.Found
	if f.URLsTotal > 0 {
		text += " (" + strings.Join(f.URLs[:min(len(f.URLs), urlsShown)], " ")
		if f.URLsTotal > urlsShown {
			text += fmt.Sprintf(" and %d more", f.URLsTotal-urlsShown)
		}
		text += ")"
	}
	return text
}

// name adds a URL.
func (f *Finding) name(urls ...string) {
	f.URLsTotal += len(urls)
	f.URLs = append(f.URLs, urls[:min(len(urls), maxNamed-len(f.URLs))]...)
}

// Report is what a check came to.
type Report struct {
	OK       bool      `json:"ok"`        // there are no findings but notes
	DataDir  string    `json:"data_dir"`  // that was checked
	ReadData bool      `json:"read_data"` // archived bodies were read too
	Findings []Finding `json:"findings"`  // in the order of the checks
	// Exchanges are those in the archive, URLs those with an outcome.
	Exchanges int64 `json:"exchanges"`
	URLs      int64 `json:"urls"` // with an outcome
}

func (r *Report) add(f Finding) {
	if !f.Note {
		r.OK = false
	}
	r.Findings = append(r.Findings, f)
}

// Mended is what a repair came to.
type Mended struct {
	// Before is what was found.
	Before *Report `json:"before"`
	DryRun bool    `json:"dry_run"` // nothing was changed
	// Aside is where what was damaged lies, empty if nothing had to be put aside.
	Aside string `json:"aside,omitempty"`
	// Rebuilt says that the database was written anew.
	Rebuilt bool `json:"rebuilt"`
	// Records were brought over, Unreadable could not be, Restored are outcomes that the archive
	// gave back.
	Records    int64 `json:"records"`
	Unreadable int64 `json:"unreadable"` // records that could not be brought over
	Restored   int64 `json:"restored"`   // outcomes that the archive gave back
	// Again are pages that are lost and are crawled again, Found URLs that were forgotten and wait
	// again as archived pages lead to them: the first of them.
	Again      []string `json:"again,omitempty"`
	AgainTotal int64    `json:"again_total"` // pages that are crawled again
	FoundTotal int64    `json:"found_total"` // URLs that wait again
	// Elsewhere are lost pages of hosts that others of the ring answer for: this peer cannot have
	// them crawled again.
	Elsewhere      []string `json:"elsewhere,omitempty"`
	ElsewhereTotal int64    `json:"elsewhere_total"` // lost pages of others' hosts
	// Nameless URLs waited and are lost with their addresses.
	Nameless int64 `json:"nameless"`
	// Files of the archive that were written anew.
	Files []string `json:"files,omitempty"`
	// Done says in words what was done.
	Done []string `json:"done"`
}

func (m *Mended) did(format string, args ...any) {
	m.Done = append(m.Done, fmt.Sprintf(format, args...))
}

func (m *Mended) again(url string) {
	if m.AgainTotal++; len(m.Again) < maxNamed {
		m.Again = append(m.Again, url)
	}
}
