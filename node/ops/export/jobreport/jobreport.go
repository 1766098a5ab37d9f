// Package jobreport summarizes what a job crawled and what it left out, from the outcomes of its
// URLs: as a document, as text, or as one HTML page without external resources.
//
// It reads the URLs once. Counts by keys of unlimited number (hosts, seeds, digests) are sorted on
// disk, and tables have the first 50 groups with exact totals, so memory is bounded.
package jobreport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/extsort"
)

// Report describes a job by the outcomes of its URLs.
type Report struct {
	Job      string            `json:"job"`              // ID
	Posted   *control.Job      `json:"posted,omitempty"` // its record; nil if unknown
	Made     time.Time         `json:"made"`             // time of the report
	URLs     int64             `json:"urls"`             // URLs with an outcome
	Bytes    int64             `json:"bytes"`            // of bodies
	First    time.Time         `json:"first,omitzero"`   // first fetch
	Last     time.Time         `json:"last,omitzero"`    // last fetch
	Complete bool              `json:"complete"`         // nothing is missing
	Missing  []control.Missing `json:"missing"`          // peers, with the number of records of the job that they hold
	Members  int               `json:"members"`          // peers that reported URLs
	Tables   map[string]*Table `json:"tables"`           // by name; each URL is in one group of outcomes
}

// leftOut are the outcomes of URLs that were not crawled or not archived although their sites did
// not fail, with the option that changes it.
var leftOut = map[string]string{
	"none": "", "noindex": "--archive-noindex", "robots_denied": "", "robots_unreachable": "", "opted_out": "", "out_of_scope": "--scope",
	"out_of_budget": "--max-pages and other limits", "trap": "--trap-rules off", "too_large": "--max-body", "too_many_redirects": "",
	"blocked_address": "--allow-private", "quarantined": "",
}

const (
	maxSize    = 1 << 40 // of a body that a peer reports, so that sums do not overflow
	maxMissing = 1000    // missing peers of a report
	intervals  = 30      // most intervals of the rate
)

type maker struct {
	*Report
	id    string // of the job, or its first digits
	sums  sums
	there map[string]bool // peers that responded
}

// Make makes the report of a job, from all members of the ring. Without the job's record it is made
// from the URLs of this peer, and id may be the first digits; that none matches is an error.
func Make(ctx context.Context, src control.Results, id string, posted *control.Job) (*Report, error) {
	dir, err := os.MkdirTemp("", "apoidea-report-*")
	if err != nil {
		return nil, err
	}
	r := &Report{Posted: posted, Made: time.Now().UTC(), Missing: []control.Missing{}, Tables: make(map[string]*Table)}
	for _, t := range specs {
		r.Tables[t.name] = &Table{Shown: []Group{}, spec: t}
	}
	m := &maker{r, id, sums{parts: make(map[key]*Group), lines: extsort.New(dir)}, make(map[string]bool)}
	return r, errors.Join(m.read(ctx, src), m.sums.lines.Close(), os.RemoveAll(dir))
}

func (m *maker) read(ctx context.Context, src control.Results) error {
	found, err := src.Archives(ctx, m.Posted != nil)
	if err != nil {
		return err
	}
	m.Missing = append(m.Missing, found.Missing...)
	if m.Posted != nil {
		m.Job = m.Posted.ID
		for _, raw := range m.Posted.Spec.URLs {
			if url, err := link.Canonical(link.WithScheme(raw)); err == nil {
				m.sums.add("seeds", url, Group{})
			}
		}
	}
	for _, p := range found.Peers {
		m.there[p.Peer] = true
		if p.Role == "worker" {
			continue
		}
		m.Members++
		for page := (&control.URLPage{}); page.After != "" || page.URLs == nil; {
			if page, err = src.URLs(ctx, p.Peer, page.After); ctx.Err() != nil || control.KindOf(err) == control.KindNoPeer {
				return cmp.Or(ctx.Err(), err)
			}
			if err != nil {
				m.Missing = append(m.Missing, control.Missing{Peer: p.Peer, Error: "its URLs: " + err.Error()})
				break
			}
			for i := range page.URLs {
				if err := m.url(&page.URLs[i]); err != nil {
					return err
				}
			}
			page.URLs = []control.URLLine{}
		}
	}
	if m.Job == "" {
		return fmt.Errorf("job %q: no finished URL of this peer; without a running peer only its own URLs are known", m.id)
	}
	if err := m.sums.each(ctx, m.take); err != nil {
		return err
	}
	for _, t := range m.Tables {
		t.trim()
	}
	m.Complete = len(m.Missing) == 0
	return nil
}

// url counts a URL, if it is of the job.
func (m *maker) url(l *control.URLLine) error {
	if m.Posted == nil && strings.HasPrefix(l.Job, m.id) {
		if m.Job != "" && m.Job != l.Job {
			return fmt.Errorf("job %q: ambiguous ID prefix of %s and %s; use more digits", m.id, m.Job, l.Job)
		}
		m.Job = l.Job
	}
	if l.Job != m.Job {
		return nil
	}
	outcome, host, status := link.OutcomeNamed(l.Outcome), link.Host(l.URL), ""
	if l.Status >= 100 && l.Status <= 999 { // others are details of DNS failures and timeouts
		status = strconv.Itoa(l.Status)
	}
	g := Group{URLs: 1, Bytes: int64(min(l.Size, maxSize))} //nolint:gosec // limited
	if outcome.Fetched() {
		g.Pages = 1
	}
	m.URLs, m.Bytes = m.URLs+1, m.Bytes+g.Bytes
	if at, err := time.Parse(time.RFC3339, l.Fetched); err == nil {
		at = at.UTC().Truncate(time.Second)
		if m.First.IsZero() || at.Before(m.First) {
			m.First = at
		}
		if at.After(m.Last) {
			m.Last = at
		}
		m.sums.add("rate", at.Format(time.RFC3339), g)
	}
	m.Tables["largest"].add(Group{key: key{Name: text(l.URL), Status: status}, Detail: text(l.MIME), URLs: 1, Bytes: g.Bytes})
	if l.LinksLeftOut > 0 {
		m.Tables["links_left_out"].add(Group{key: key{Name: text(l.URL)}, URLs: int64(l.LinksLeftOut)})
	}
	for table, name := range map[string]string{"outcomes": outcome.String(), "statuses": status, "mime": l.MIME, "hosts": host} {
		m.sums.add(table, name, g)
	}
	if l.Record != "" {
		m.sums.add("peers", l.Holder, g)
	}
	seed, of := l.Seed, g
	if l.Via == "" && l.HopPath == "" && l.Depth == 0 && l.Hops == 0 && (seed == "" || seed == l.URL) && l.Kind != "robots" {
		m.sums.add("seed_outcomes", outcome.String(), g)
		seed, of = l.URL, Group{Outcome: strings.TrimSpace(outcome.String() + " " + status), Detail: cmp.Or(l.Redirect, l.Detail)}
	}
	m.sums.add("seeds", seed, of)
	of = g
	of.Host, of.Status = host, cmp.Or(status, outcome.String())
	m.sums.add("seed_hosts", cmp.Or(seed, "unknown"), of)
	g.Examples = []string{text(l.URL)}
	if outcome.Fetched() && l.Size > 0 {
		m.sums.add("copies", l.Digest, g)
	}
	if l.Status == 404 || l.Status == 410 {
		m.sums.add("dead_links", l.Via, g)
	}
	if option, ok := leftOut[outcome.String()]; ok {
		g.Rule, g.Option = l.Detail, option
		if outcome == link.OutcomeRobotsDenied || outcome == link.OutcomeRobotsUnreachable {
			g.Rule = "robots.txt of " + host
		}
		m.sums.add("left_out", outcome.String(), g)
	} else if outcome != link.OutcomeRedirect && !outcome.Fetched() {
		g.Status, g.Detail = status, l.Detail
		m.sums.add("errors", outcome.String(), g)
	}
	return m.sums.err
}

// take adds a sum to its tables.
func (m *maker) take(g Group) {
	t := m.Tables[g.Table]
	g.Table = ""
	switch {
	case t.name == "rate": // in the order of time
		at, _ := time.Parse(time.RFC3339, g.Name) // as written
		width := (m.Last.Unix()-m.First.Unix())/intervals + 1
		g.Name = time.Unix(at.Unix()-(at.Unix()-m.First.Unix())%width, 0).UTC().Format(time.RFC3339)
		if last := len(t.Shown) - 1; last >= 0 && t.Shown[last].Name == g.Name {
			t.URLs += g.URLs
			t.Shown[last].merge(&g)
			return
		}
	case t.name == "copies" && g.URLs == 1:
		return
	case t.name == "hosts":
		m.Tables["hosts_by_bytes"].add(g)
	case t.name == "peers" && m.Posted != nil && !m.there[g.Name]:
		if i := slices.IndexFunc(m.Missing, func(o control.Missing) bool { return o.Peer == g.Name }); i >= 0 {
			m.Missing[i].Records = g.URLs
		} else if len(m.Missing) < maxMissing {
			m.Missing = append(m.Missing, control.Missing{Peer: g.Name, Records: g.URLs, Error: "is not in the ring"})
		}
	}
	t.add(g)
}
