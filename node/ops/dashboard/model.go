package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/words"
)

// Limits of the content of a page.
const (
	maxHosts = 30
	maxLog   = 30
	maxJobs  = 12
	maxPeers = 20 // rows of peers with rejected requests, and of attached workers
)

// Temporary rejections are normal for settleTime after a change of the ring. A peer with
// manyRefused of them is listed anyway.
const (
	settleTime  = time.Minute
	manyRefused = 20
)

// model is the state of the peer at one moment.
type model struct {
	at       time.Time
	status   *control.Status
	attached []control.PeerLine // see Peer
	crawled  *Crawled
	limits   *control.Limits
	whole    *whole // nil: no recent walk
	latest   point
	recent   []Outcome // newest first
	failed   []Outcome
	refused  []Refused
	jobs     []control.Job       // nil: not listed
	jobKey   string              // signs changes made at this peer
	log      []control.RingEvent // newest first
	points   []point             // of the charts, oldest first
}

// drawn is a chart with its SVG.
type drawn struct {
	chart
	SVG   template.HTML
	Empty bool
}

// row is a row of the host table.
type row struct {
	control.HostLine
	// Here: this peer crawls it. Ours: this peer owns it. Behind: see control.Behind.
	Here, Ours bool
	Behind     float64
}

// neighbour is a row of the leaf set table.
type neighbour struct {
	control.PeerLine
	Word   string
	Crawls int // hosts that it crawls for this peer
}

// walked is the state of the whole ring.
type walked struct {
	At      time.Time
	Members int
	State   string // control.RingClosed or RingOpen
	Why     string // why it is converging
	Totals  *control.Counters
}

// page is the input of the templates.
type page struct {
	model *model

	Status *control.Status
	// Lamp is the class of the state indicator.
	StateWord, Why, Lamp string
	// ByUser reports a pause by the user, which the page can end.
	Paused, ByUser bool
	MayAct         bool
	Form           string
	Said           string
	SaidBad        bool
	Ring           template.HTML
	Walked         *walked       // nil: unknown
	Delegates      bool          // others crawl hosts for this peer
	Did            *control.Used // work of this peer
	Jobs           []control.Job
	JobKey         string
	Charts         []drawn
	Holds          []control.Hold
	Used           []used
	Settings       []setting
	// Correct reports that the form holds rejected values.
	Correct    bool
	Hosts      []row
	TotalHosts int64
	MoreHosts  bool
	NoHosts    string
	Recent     []Outcome
	Failed     []Outcome
	Refused    []Refused
	Neighbours []neighbour
	Log        []control.RingEvent
}

// page converts the model to a page.
func (m *model) page(acts bool, form string) *page {
	p := &page{
		model: m, Status: m.status, MayAct: acts, Did: &m.limits.Used, Log: m.log, Recent: m.recent, Failed: m.failed, Paused: m.limits.Paused, Jobs: m.jobs, JobKey: m.jobKey,
	}
	if acts {
		p.Form = form
	}
	p.StateWord, p.Why, p.Lamp = stateWords(m)
	p.ofRing(m.whole)
	p.Ring = m.circle()
	p.neighbours(m)
	for i := range m.refused {
		if len(p.Refused) < maxPeers && m.matters(&m.refused[i]) {
			p.Refused = append(p.Refused, m.refused[i])
		}
	}
	p.hosts(m)
	p.limits(m)
	cs := charts(m.points, &m.latest)
	for i := range cs {
		p.Charts = append(p.Charts, drawn{cs[i], cs[i].svg(), cs[i].empty()})
	}
	return p
}

// ofRing sets the result of the last walk: the state of the ring and its totals.
func (p *page) ofRing(w *whole) {
	if w == nil {
		return
	}
	p.Walked = &walked{At: w.at, Members: len(w.ring.Members), State: w.ring.State(), Why: w.ring.Error, Totals: &w.totals}
}

// neighbours lists the leaf set and the attached peers, with what the last walk found of them.
func (p *page) neighbours(m *model) {
	found := make(map[string]*control.Member)
	if m.whole != nil {
		for i := range m.whole.ring.Members {
			found[m.whole.ring.Members[i].Peer] = &m.whole.ring.Members[i]
		}
	}
	own := cmp.Or(found[m.status.Peer], new(control.Member))
	add := func(list []control.PeerLine, word func(*control.PeerLine) string) {
		for i := range list {
			n := neighbour{list[i], word(&list[i]), own.Delegated[list[i].Peer]}
			n.ArcShare = cmp.Or(found[n.Peer], new(control.Member)).ArcShare
			p.Delegates = p.Delegates || n.Crawls > 0
			p.Neighbours = append(p.Neighbours, n)
		}
	}
	add(m.status.Peers, m.side)
	add(m.attached[:min(len(m.attached), maxPeers)], func(l *control.PeerLine) string {
		if l.Role == "worker" {
			return "worker"
		}
		return "attached"
	})
}

// side returns the position of a peer of the leaf set.
func (m *model) side(l *control.PeerLine) string {
	r := &m.status.Ring
	next := len(r.Successors) > 0 && r.Successors[0] == l.Peer
	switch {
	case next && r.Predecessor == l.Peer:
		return "predecessor, successor"
	case next:
		return "successor"
	case r.Predecessor == l.Peer:
		return "predecessor"
	default:
		return "leaf"
	}
}

func (p *page) hosts(m *model) {
	list := m.crawled.Hosts
	for _, h := range list {
		r := row{HostLine: h, Here: h.Worker == m.status.Peer, Ours: h.Owner == m.status.Peer}
		if h.LeastRTTMs > 0 {
			r.Behind = control.Behind(h.RTTMs, h.LeastRTTMs)
		}
		p.Hosts = append(p.Hosts, r)
	}
	p.TotalHosts, p.MoreHosts = int64(m.crawled.Total), m.crawled.Total > len(list)
	switch {
	case p.Paused:
		p.NoHosts = "While this peer is paused, other peers crawl the hosts that it owns."
	case m.status.URLsPending > 0:
		p.NoHosts = "The pending URLs are not due yet."
	default:
		p.NoHosts = "Hosts appear here while a job runs."
	}
}

// stateWords returns the state of the peer, its explanation and the class of the indicator.
func stateWords(m *model) (word, why, lamp string) {
	s := m.status
	lamp = s.State
	switch s.State {
	case "crawling":
		if m.crawled.Here == 0 {
			word, why = othersCrawl(m)
			lamp = "idle"
			break
		}
		word, why = "Crawling", fmt.Sprintf("%s being crawled, %s pending.", words.Counted(int64(m.crawled.Total), "host"), words.Counted(s.URLsPending, "URL"))
	case "idle":
		word, why = "Idle", "This peer has no work left."
	case "paused":
		word, why = "Paused", "Not fetching. The peer stays in the ring and keeps its records."
	case "joining":
		word, why = "Joining", "Joining the ring."
	case "leaving":
		word, why = "Leaving", "Handing off records to the neighbors."
	default:
		word = s.State
	}
	if s.Role == "worker" {
		if s.State == "crawling" {
			why = words.Counted(int64(m.crawled.Here), "host") + " being crawled."
		}
		why += fmt.Sprintf(" Worker (%s): it owns no hosts and crawls for the peers it is attached to.", s.WhyWorker())
	}
	return word, why, lamp
}

// othersCrawl explains a peer with pending work that fetches nothing itself.
func othersCrawl(m *model) (word, why string) {
	if m.crawled.Total > 0 {
		return "Others crawl", fmt.Sprintf("%s of this peer %s crawled by other peers, which are closer or have more capacity. %s pending.",
			words.Counted(int64(m.crawled.Total), "host"), map[bool]string{true: "is", false: "are"}[m.crawled.Total == 1], words.Counted(m.status.URLsPending, "URL"))
	}
	return "Waiting", fmt.Sprintf("%s pending until they are due or a worker is free.", words.Counted(m.status.URLsPending, "URL"))
}

// matters reports whether rejections are more than the temporary ones of a converging ring.
func (m *model) matters(r *Refused) bool {
	changed := m.at.Add(-time.Duration(m.status.UptimeS * float64(time.Second)))
	if len(m.log) > 0 {
		changed = m.log[0].Time
	}
	last := m.at.Add(-time.Duration(r.AgoMS) * time.Millisecond)
	return r.Requests > r.Later || r.Requests >= manyRefused || last.Sub(changed) > settleTime
}

// ask collects a model from the peer, without history and log.
func ask(ctx context.Context, peer Peer) (*model, error) {
	m := &model{at: time.Now()}
	var err error
	if m.status, err = peer.Status(ctx, false); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	m.attached = peer.Attached()
	m.recent, m.failed = peer.Lately()
	m.refused = peer.Refused()
	if key, err := peer.JobKey(ctx); err == nil {
		m.jobKey = key.ID
	}
	if m.limits, err = peer.Limits(ctx); err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	if m.crawled, err = peer.Crawled(ctx, maxHosts); err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	return m, nil
}
