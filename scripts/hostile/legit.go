package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/trap/traptest"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/scripts/harness"
)

// Real sites whose pages look more alike than they are, each a host of a domain of its own. A good
// crawler fetches every page that has content of its own. The job has the defaults of its profile;
// only the delay is a trial's.
var legitFamily = family{
	name: "legit",
	does: "real sites that look like endless ones",
	seeds: func(w *world) (seeds []string) {
		for _, s := range legit {
			seeds = append(seeds, s.url(w))
		}
		return seeds
	},
	serve: func(_ *world, rw http.ResponseWriter, r *http.Request, name string) {
		if s := legitSite(name); s != nil {
			s.serve(rw, r)
			return
		}
		http.NotFound(rw, r)
	},
}

// legit are the sites of the trials.
var legit []*legitShape

// legitShape is a made-up site, with which of its own pages were fetched.
type legitShape struct {
	traptest.Site
	mu      sync.Mutex      // guards what follows
	own     map[string]bool // whether they were fetched, by path and query
	fetched int             // of them
}

// legitDelay is the least gap between requests to a host: the profile's would take hours.
const legitDelay = time.Millisecond

// Bounds of a crawl: of one shape or all, and of the quick trial.
const (
	legitWithin      = 20 * time.Minute
	legitQuickWithin = 80 * time.Second
)

// legitOptions are what the command line says of these trials.
type legitOptions struct {
	on      bool
	scale   int
	peers   int
	profile string
}

func legitSite(name string) *legitShape {
	for _, s := range legit {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func (s *legitShape) host(w *world) string { return fmt.Sprintf("%s-of-legit.test:%d", s.Name, w.port) }

func (s *legitShape) url(w *world) string { return "http://" + s.host(w) + s.Start }

func (s *legitShape) serve(rw http.ResponseWriter, r *http.Request) {
	a := s.Get(r.RequestURI)
	rw.Header().Set("Content-Type", a.Type)
	if a.Location != "" {
		rw.Header().Set("Location", a.Location)
	}
	rw.WriteHeader(a.Status)
	_, err := rw.Write(a.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, own := s.own[r.RequestURI]; own && !was && err == nil && a.Status == http.StatusOK {
		s.own[r.RequestURI] = true
		s.fetched++
	}
}

// forget begins anew.
func (s *legitShape) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own, s.fetched = make(map[string]bool), 0
	for path := range s.Own {
		s.own[path] = false
	}
}

// lost are some of the own pages that were not fetched.
func (s *legitShape) lost() (some []string) {
	for path := range s.Own {
		if !s.own[path] && len(some) < 3 {
			some = append(some, path)
		}
	}
	return some
}

// legitTrial is one crawl.
type legitTrial struct {
	name    string
	profile string
	peers   int
	shapes  []*legitShape
}

// legitRow is what became of one shape in a crawl.
type legitRow struct {
	Shape    string   `json:"shape"`
	Profile  string   `json:"profile"`
	Peers    int      `json:"peers"`
	Own      int      `json:"own"`
	Fetched  int      `json:"fetched"`  // of the own pages
	Requests int      `json:"requests"` // in all, robots.txt included
	Beside   int      `json:"beside"`   // requests that were not the first one for an own page
	Seconds  float64  `json:"seconds"`  // of the whole crawl
	Left     int64    `json:"left"`     // URLs that the crawl says it left as a trap
	Budget   int64    `json:"budget"`   // and beyond a budget
	Trap     string   `json:"trap,omitempty"`
	Lost     []string `json:"lost,omitempty"` // some of the own pages that were not fetched
	Wrong    string   `json:"wrong,omitempty"`
}

func (r *legitRow) fine() bool { return r.Wrong == "" && r.Fetched == r.Own }

func (r *legitRow) line() string {
	word := "ok   "
	if !r.fine() {
		word = "WRONG"
	}
	s := fmt.Sprintf("%s %-12s %-6s %d  %5d/%-5d own, %6d requests, %6d beside, %5.1f s; left %d", word, r.Shape, r.Profile, r.Peers, r.Fetched, r.Own, r.Requests, r.Beside, r.Seconds, r.Left)
	if r.Budget > 0 {
		s += fmt.Sprintf(", %d beyond a budget", r.Budget)
	}
	said := slices.DeleteFunc([]string{s, r.Trap, strings.Join(r.Lost, " "), r.Wrong}, func(more string) bool { return more == "" })
	return strings.Join(said, "; ")
}

// legitPlan makes the trials that the names ask for: without names all shapes, and all of them at
// once before a ring.
func legitPlan(o *options, names []string) (trials []legitTrial, err error) {
	l := &o.legit
	for _, s := range traptest.Real(l.scale) {
		legit = append(legit, &legitShape{Site: s})
	}
	shapes := legit
	if len(names) > 0 {
		shapes = nil
	}
	for _, name := range names {
		s := legitSite(name)
		if s == nil {
			return nil, fmt.Errorf("%w %q", harness.ErrUsage, name)
		}
		shapes = append(shapes, s)
	}
	switch {
	case !slices.Contains([]string{"", "lab", "public"}, l.profile):
		return nil, fmt.Errorf("%w profile %q", harness.ErrUsage, l.profile)
	case l.peers > 1 && l.profile == "public":
		return nil, fmt.Errorf("%w ring of the public profile: public peers tell each other no address of loopback: several are of the lab profile", harness.ErrUsage)
	case o.quick:
		return []legitTrial{{name: "quick", profile: cmp.Or(l.profile, "lab"), peers: max(l.peers, 1), shapes: shapes}}, nil
	}
	for _, s := range shapes {
		for _, profile := range []string{"lab", "public"} {
			if cmp.Or(l.profile, profile) == profile && (l.peers < 2 || profile == "lab") {
				trials = append(trials, legitTrial{s.Name + "-" + profile, profile, max(l.peers, 1), []*legitShape{s}})
			}
		}
	}
	if len(names) == 0 && l.peers == 0 && cmp.Or(l.profile, "lab") == "lab" {
		trials = append(trials, legitTrial{"ring", "lab", 4, shapes})
	}
	return trials, nil
}

// runLegit makes the trials and prints a line for each shape in each of them.
func runLegit(ctx context.Context, o *options, w *world, trials []legitTrial) (fine bool, err error) {
	fine = true
	for _, t := range trials {
		rows := t.run(ctx, o, w)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		for _, r := range rows {
			fine = fine && r.fine()
			line := []byte(r.line())
			if o.json {
				if line, err = json.Marshal(r); err != nil {
					return false, err
				}
			}
			fmt.Println(string(line))
		}
	}
	return fine, nil
}

// run does one crawl.
func (t *legitTrial) run(ctx context.Context, o *options, w *world) []*legitRow {
	w.audit.forget()
	for _, s := range t.shapes {
		s.forget()
	}
	peers, err := t.start(ctx, o, w)
	defer func() {
		for _, p := range peers {
			p.Kill()
		}
	}()
	begun := time.Now()
	if err == nil {
		err = t.crawl(ctx, o, w, peers[0])
	}
	took := time.Since(begun)
	var rows []*legitRow
	for _, s := range t.shapes {
		r := t.row(ctx, w, s, peers)
		r.Seconds = took.Seconds()
		if err != nil {
			r.Wrong = err.Error()
		}
		rows = append(rows, r)
	}
	return rows
}

// start starts the peers, which find each other.
func (t *legitTrial) start(ctx context.Context, o *options, w *world) (peers []*peer, err error) {
	args := []string{
		"--profile", t.profile, "--network", "legit", "--allow-private=" + allowedPrefix, "--dns-server", w.dnsAddr,
		"--delay", legitDelay.String(),
	}
	if t.profile == "public" {
		// The sites share their addresses' permits, which the delay does not raise above 2400 a
		// minute.
		args = append(args, "--ip-permits", "1000000", "--contact", "https://crawler.example/", "--reachability", "public", "--nat-traversal", "off", "--optout-proof", "no")
	}
	args = append(args, strings.Fields(o.extra)...)
	for i := range t.peers {
		p, err := start(ctx, o, fmt.Sprintf("%s%d", t.name, i+1), args...)
		if err != nil {
			return peers, err
		}
		peers = append(peers, p)
		if i == 0 && t.peers > 1 {
			addrs, err := p.Addrs(ctx)
			if err != nil {
				return peers, err
			}
			args = append(args, "--bootstrap", addrs[0])
		}
	}
	return peers, nil
}

// crawl posts the job and waits until nothing is left to do.
func (t *legitTrial) crawl(ctx context.Context, o *options, w *world, p *peer) error {
	within := legitWithin
	if o.quick {
		within = legitQuickWithin
	}
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var seeds []string
	for _, s := range t.shapes {
		seeds = append(seeds, s.url(w))
	}
	job, err := p.Client.Post(limited, control.JobSpec{URLs: seeds})
	if err != nil {
		return err
	}
	err = p.Client.Wait(limited, job.ID, patience, func(control.Progress) error { return nil })
	if limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("the crawl has not ended after %v", within)
	}
	return err
}

// row compares what the server saw of a shape with what it has, and asks what the ring says of it.
func (t *legitTrial) row(ctx context.Context, w *world, s *legitShape, peers []*peer) *legitRow {
	r := &legitRow{Shape: s.Name, Profile: t.profile, Peers: t.peers}
	_, hosts := w.audit.report(&legitFamily)
	for _, h := range hosts {
		if h.Host == s.host(w) {
			r.Requests = h.Requests
		}
	}
	s.mu.Lock()
	r.Own, r.Fetched, r.Lost = len(s.own), s.fetched, s.lost()
	s.mu.Unlock()
	r.Beside = r.Requests - r.Fetched
	if len(peers) == 0 {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	h, err := peers[0].Client.Host(ctx, s.host(w))
	if err != nil {
		r.Wrong = err.Error()
		return r
	}
	for _, j := range h.Jobs {
		r.Left, r.Budget, r.Trap = j.Outcomes["trap"], j.Outcomes["out_of_budget"], j.Trap
	}
	return r
}
