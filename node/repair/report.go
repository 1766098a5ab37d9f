package repair

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

// Finding is one defect and its effect on the crawl. The JSON names are stable.
type Finding struct {
	Area  string `json:"area"`            // part of the data directory, see the areas
	Where string `json:"where,omitempty"` // a file
	Found string `json:"found"`           // the defect
	Means string `json:"means"`           // its effect on the crawl
	// URLs are the first of the URLsTotal affected ones.
	URLs      []string `json:"urls,omitempty"`
	URLsTotal int      `json:"urls_total,omitempty"` // number of affected URLs
	// Note reports a normal result of a crash.
	Note bool `json:"note,omitempty"`
}

const (
	// maxNamed is the maximum number of URLs in a finding, urlsShown that in its text.
	maxNamed  = 10_000
	urlsShown = 5
)

// String returns one line with the place, the defect and some of the URLs.
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
func (f *Finding) name(url string) {
	if f.URLsTotal++; len(f.URLs) < maxNamed {
		f.URLs = append(f.URLs, url)
	}
}

// Report is the result of a check.
type Report struct {
	OK       bool      `json:"ok"`       // there are only notes
	DataDir  string    `json:"data_dir"` // the checked directory
	Findings []Finding `json:"findings"` // in the order of the checks
	// Exchanges is the number in the archive.
	Exchanges int64 `json:"exchanges"`
	URLs      int64 `json:"urls"` // number of outcomes
}

func (r *Report) add(f Finding) {
	if !f.Note {
		r.OK = false
	}
	r.Findings = append(r.Findings, f)
}

// Result is the result of a repair.
type Result struct {
	// Before is the check before the repair.
	Before *Report `json:"before"`
	DryRun bool    `json:"dry_run"` // nothing was changed
	// Aside is the directory of the corrupt files, empty if none was moved.
	Aside string `json:"aside,omitempty"`
	// NewDatabase reports that the database was replaced.
	NewDatabase bool `json:"new_database"`
	// Restored is the number of outcomes from the archive.
	Restored int64 `json:"restored"`
	// Again are the first of the lost pages that are pending again.
	Again      []string `json:"again,omitempty"`
	AgainTotal int64    `json:"again_total"` // number of these pages
	// Elsewhere are the first of the lost pages whose outcomes other peers of the ring have: this
	// peer cannot have them crawled again.
	Elsewhere      []string `json:"elsewhere,omitempty"`
	ElsewhereTotal int64    `json:"elsewhere_total"` // number of these pages
	// Files are the archive files that were rewritten.
	Files []string `json:"files,omitempty"`
	// Done are descriptions of the changes.
	Done []string `json:"done"`
}

func (r *Result) did(format string, args ...any) {
	r.Done = append(r.Done, fmt.Sprintf(format, args...))
}
