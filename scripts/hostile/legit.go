package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/trap/traptest"
	"github.com/apoidea/apoidea/scripts/harness"
)

// Real sites whose pages look more alike than they are: each is a family of one host. A good
// crawler fetches every page that has content of its own. The job has the defaults of its profile,
// except for the delay.

// legitDelay is the least gap between requests to a host: the profile's would take hours.
const legitDelay = time.Millisecond

// Bounds of a crawl of one site or all, and of the quick trial.
const (
	legitWithin      = 20 * time.Minute
	legitQuickWithin = 80 * time.Second
)

// site answers as a made-up site does.
func (x exchange) site(s *traptest.Site) {
	a := s.Get(x.r.RequestURI)
	x.rw.Header().Set("Content-Type", a.Type)
	if a.Location != "" {
		x.rw.Header().Set("Location", a.Location)
	}
	x.rw.WriteHeader(a.Status)
	_, _ = x.rw.Write(a.Body)
}

// legitPlan makes the trials that the names ask for: without names all sites, and all of them at
// once before a ring.
func legitPlan(o *options, names []string) (p plan, err error) {
	families = nil
	for _, s := range traptest.Real(o.scale) {
		families = append(families, &family{name: s.Name, does: s.What, site: &s})
	}
	chosen, err := harness.Choose(families, names, func(f *family) string { return f.name }, func(*family) bool { return true })
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains([]string{"", "lab", "public"}, o.profile):
		return nil, fmt.Errorf("%w profile %q", harness.ErrUsage, o.profile)
	case o.peers > 1 && o.profile == "public":
		return nil, fmt.Errorf("%w ring of the public profile: public peers announce no address of loopback; several are of the lab profile", harness.ErrUsage)
	case o.quick:
		return plan{{name: "quick", families: chosen, peers: max(o.peers, 1), profile: cmp.Or(o.profile, "lab")}}, nil
	}
	for _, f := range chosen {
		for _, profile := range []string{"lab", "public"} {
			if cmp.Or(o.profile, profile) == profile && (o.peers < 2 || profile == "lab") {
				p = append(p, trialPlan{name: f.name + "-" + profile, families: []*family{f}, peers: max(o.peers, 1), profile: profile})
			}
		}
	}
	if len(names) == 0 && o.peers == 0 && cmp.Or(o.profile, "lab") == "lab" {
		p = append(p, trialPlan{name: "ring", families: chosen, peers: 4, profile: "lab"})
	}
	return p, nil
}

// siteReport is the result for one site of a crawl.
type siteReport struct {
	Site     string  `json:"site"`
	Profile  string  `json:"profile"`
	Peers    int     `json:"peers"`
	Own      int     `json:"own"`
	Fetched  int     `json:"fetched"`  // of the own pages
	Requests int     `json:"requests"` // in all, robots.txt included
	Beside   int     `json:"beside"`   // requests that were not the first one for an own page
	Seconds  float64 `json:"seconds"`  // of the whole crawl
	Left     int64   `json:"left"`     // URLs with outcome trap
	Budget   int64   `json:"budget"`   // URLs with outcome out_of_budget
	harness.Verdict
}

func (s *siteReport) line() string {
	text := fmt.Sprintf("%-6s %d  %5d/%-5d own, %6d requests, %6d beside, %5.1f s; left %d",
		s.Profile, s.Peers, s.Fetched, s.Own, s.Requests, s.Beside, s.Seconds, s.Left)
	if s.Budget > 0 {
		text += fmt.Sprintf(", %d beyond a budget", s.Budget)
	}
	return strings.Join(append([]string{text}, s.Notes...), "; ")
}

// judgeSite compares what the server sent of a site with the site's own pages.
func (j *judge) judgeSite(ctx context.Context) {
	s := &siteReport{Site: j.family.name, Profile: j.profile, Peers: len(j.peers), Seconds: j.report.CrawlS}
	j.report.sites = append(j.report.sites, s)
	h := j.host("www")
	got := make(map[string]bool)
	for _, r := range h.log {
		got[r.path] = got[r.path] || r.whole
	}
	var lost []string
	for path := range j.family.site.Own {
		if s.Own++; got[path] {
			s.Fetched++
		} else if len(lost) < 3 {
			lost = append(lost, path)
		}
	}
	s.Requests, s.Beside = h.Requests, h.Requests-s.Fetched
	if s.Fetched < s.Own {
		s.Blame("%d of %d own pages were not fetched, such as %s", s.Own-s.Fetched, s.Own, strings.Join(lost, " "))
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	detail, err := j.peers[0].Client.Host(ctx, j.w.host(j.family.name, "www"))
	if err != nil {
		s.Blame("%v", err)
		return
	}
	for _, job := range detail.Jobs {
		s.Left, s.Budget = job.Outcomes["trap"], job.Outcomes["out_of_budget"]
		if job.Trap != "" {
			s.Say("%s", job.Trap)
		}
	}
}
