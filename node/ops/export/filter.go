package export

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/warc"
)

// ErrEmpty is returned for an export without output because nothing matches its filter.
var ErrEmpty = errors.New("nothing matches")

// None is the value of a condition that selects what lacks one.
const None = "none"

// Filter selects exchanges and URLs: each condition with values must hold by at least one of them.
// The zero Filter selects everything.
type Filter struct {
	Job     []string `json:"job,omitempty"`     // IDs or their first digits, or none
	Host    []string `json:"host,omitempty"`    // globs of the host, with its port if they have a colon
	Path    []string `json:"path,omitempty"`    // globs of the path without the query
	Status  []string `json:"status,omitempty"`  // HTTP statuses such as 404 or 4xx, or none
	MIME    []string `json:"mime,omitempty"`    // globs of the type without parameters, or none
	Outcome []string `json:"outcome,omitempty"` // names, or none
	// Since and Until limit the time of the fetch: from Since on, and before Until.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Subject is what a Filter reads of an exchange or a URL. Unknown fields are zero.
type Subject struct {
	Job, Outcome, MIME string
	Host, Path         string // Host has the port, unless it is the default
	Status             int
	Time               time.Time
}

// condition is one list of a filter.
type condition struct {
	flag   string
	values *[]string
	fold   bool // values have lower case
	valid  func(value string) bool
	want   string // for the error of an invalid value
}

func (f *Filter) conditions() []condition {
	every := func(string) bool { return true }
	return []condition{
		{"job", &f.Job, true, func(v string) bool { return len(v) <= 32 && strings.Trim(v, "0123456789abcdef") == "" }, "a job ID (apoidea jobs lists them) or none"},
		{"host", &f.Host, true, every, "a host such as example.org or *.example.org"},
		{"path", &f.Path, false, func(v string) bool { return v[0] == '/' || v[0] == '*' }, "a path such as /docs/*"},
		{"status", &f.Status, true, validStatus, "a status such as 404, a class such as 4xx, or none"},
		{"mime", &f.MIME, true, every, "a type such as text/html or image/*, or none"},
		{"outcome", &f.Outcome, true, func(v string) bool { return slices.Contains(outcomes(), v) }, "one of " + strings.Join(outcomes(), ", ")},
	}
}

// outcomes are the names of all outcomes.
func outcomes() (names []string) {
	for o := range link.Outcome(link.Outcomes) {
		names = append(names, o.String())
	}
	return names
}

func validStatus(v string) bool {
	return len(v) == 3 && v[0] >= '1' && v[0] <= '9' && (v[1:] == "xx" || strings.Trim(v, "0123456789") == "")
}

// Check returns a usage error for an invalid value, and converts values to lower case.
func (f *Filter) Check() error {
	for _, c := range f.conditions() {
		*c.values = slices.Clone(*c.values) // the caller may use them for another export
		for i, v := range *c.values {
			if c.fold {
				v = strings.ToLower(v)
			}
			if v == "" || v != None && !c.valid(v) {
				return control.Usage(fmt.Sprintf("--%s %q: must be %s", c.flag, v, c.want))
			}
			(*c.values)[i] = v
		}
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return control.Usage(fmt.Sprintf("--since %s: must be before --until %s", f.Since.Format(time.RFC3339), f.Until.Format(time.RFC3339)))
	}
	return nil
}

// String returns the filter as flags of the command.
func (f *Filter) String() string {
	var flags []string
	for _, c := range f.conditions() {
		for _, v := range *c.values {
			flags = append(flags, "--"+c.flag+" "+v)
		}
	}
	if !f.Since.IsZero() {
		flags = append(flags, "--since "+f.Since.Format(time.RFC3339))
	}
	if !f.Until.IsZero() {
		flags = append(flags, "--until "+f.Until.Format(time.RFC3339))
	}
	return strings.Join(flags, " ")
}

// Empty reports whether the filter selects everything.
func (f *Filter) Empty() bool { return f.String() == "" }

// ParseTime parses a time in RFC 3339, a date (0:00 UTC), or a duration before now, such as 90m or
// 7d.
func ParseTime(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	ago, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		ago = time.Duration(n) * 24 * time.Hour //nolint:gosec // 16 bits
	}
	if err != nil || ago < 0 {
		return time.Time{}, fmt.Errorf("%q: must be a date (2026-11-30), a time (2026-11-30T08:00:00Z), or a duration before now (24h, 7d)", text)
	}
	return now.Add(-ago).UTC().Truncate(time.Second), nil
}

// Match reports whether the filter, which was checked, selects a subject.
func (f *Filter) Match(s *Subject) bool {
	if !f.Since.IsZero() && s.Time.Before(f.Since) || !f.Until.IsZero() && !s.Time.Before(f.Until) {
		return false
	}
	return some(f.Job, s.Job, strings.HasPrefix) && some(f.Host, s.Host, matchHost) && some(f.Path, s.Path, matchGlob) &&
		some(f.Status, strconv.Itoa(s.Status), matchStatus) && some(f.MIME, s.MIME, matchGlob) &&
		some(f.Outcome, s.Outcome, func(s, value string) bool { return s == value })
}

// some reports whether one of the values, if any, matches s.
func some(values []string, s string, match func(s, value string) bool) bool {
	for _, v := range values {
		if v == None && s == "" || match(s, v) {
			return true
		}
	}
	return len(values) == 0
}

func matchHost(host, glob string) bool {
	if matchGlob(host, glob) {
		return true
	}
	name, _, ok := strings.Cut(host, ":")
	if i := strings.IndexByte(host, ']'); i >= 0 {
		name, ok = host[:i+1], true
	}
	return ok && matchGlob(name, glob)
}

// matchGlob matches all of s; * stands for any characters.
func matchGlob(s, glob string) bool {
	parts := strings.Split(glob, "*")
	last := len(parts) - 1
	s, ok := strings.CutPrefix(s, parts[0])
	if last == 0 || !ok {
		return ok && s == ""
	}
	for _, part := range parts[1:last] {
		if _, s, ok = strings.Cut(s, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(s, parts[last])
}

func matchStatus(status, value string) bool {
	return status == value || value == None && status == "0" || status[0] == value[0] && value[1:] == "xx"
}

func subject(url string, at time.Time) Subject {
	path, _, _ := strings.Cut(link.PathQuery(url), "?")
	return Subject{Host: link.Host(url), Path: path, Time: at}
}

// SubjectOfLine returns the subject of an index line.
func SubjectOfLine(l *warc.IndexLine) Subject {
	s := subject(l.URL, l.Date)
	s.Job, s.Outcome = l.Job, l.Outcome
	s.Status, _ = strconv.Atoi(l.Status)
	if l.MIME != warc.UnknownMIME {
		s.MIME = l.MIME
	}
	return s
}

// SubjectOfURL returns the subject of a line of export urls. The time of a URL that was never
// fetched is zero.
func SubjectOfURL(l *control.URLLine) Subject {
	at, _ := time.Parse(time.RFC3339, l.Fetched)
	s := subject(l.URL, at)
	s.Job, s.Outcome, s.Status, s.MIME = l.Job, l.Outcome, l.Status, l.MIME
	if s.Outcome == None {
		s.Outcome = ""
	}
	return s
}
