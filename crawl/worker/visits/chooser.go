package visits

import (
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// governed is a visit that a governor admitted.
type governed struct {
	id       uint64
	progress fetch.Progress
	result   bandwidth.Result
}

// chooser selects the next visit: under a bandwidth limit the one that a governor admits, else that
// of the host that has been due for longest.
type chooser struct {
	m        *Machine
	governor bandwidth.Governor   // nil without a limit
	visits   map[uint64]*governed // those admitted, by the governor's IDs
	sampled  time.Time
}

// Cap limits the bytes a second of all exchanges, by the governor of that name; zero is no limit.
func (m *Machine) Cap(rate int64, name string) error {
	c := &m.chooser
	switch {
	case rate <= 0:
		c.governor = nil
		clear(c.visits)
	case c.governor != nil:
		c.governor.SetRate(float64(rate))
	default:
		cfg := bandwidth.Config{Rate: float64(rate), MaxDepth: m.cfg.MaxDepth, Fetchers: max(m.allowed, 1), Limited: true}
		governor, err := bandwidth.New(name, cfg, m.cfg.Estimates)
		if err != nil {
			return err
		}
		c.governor = governor
	}
	return nil
}

// scoreOf returns the score of a URL: its rank in the job's order, then its age.
func scoreOf(it reports.Item) uint64 { return uint64(it.Rank)<<32 | it.Serial&(1<<32-1) }

// pick opens the next visit, as the frontier's Next does; under a bandwidth limit it is the one
// that the governor admits, by score.
func (c *chooser) pick(now time.Time) (name string, by *governed, due time.Time) {
	if c.governor == nil {
		name, due = c.m.frontier.Next(now)
		return name, nil, due
	}
	c.sample(now)
	names, due := c.m.frontier.Ranked(now, c.m.cfg.MaxDepth, scoreOf)
	if len(names) == 0 {
		return "", nil, due
	}
	q := candidates{c, names}
	a, ok := c.governor.Admit(now, q)
	if !ok {
		again := now.Add(c.governor.Every())
		if due.IsZero() || again.Before(due) {
			due = again
		}
		return "", nil, due
	}
	one, _ := q.At(a.Depth)
	name = names[a.Depth]
	if c.m.hosts[name] == nil || !c.m.frontier.Visit(now, name) {
		c.governor.End(now, one.ID, bandwidth.Result{})
		return "", nil, now.Add(c.governor.Every())
	}
	c.m.counts.Admitted++
	if a.Depth > 0 {
		c.m.counts.Passed++
	}
	if a.Known {
		c.m.counts.Known++
	}
	by = &governed{id: one.ID}
	c.visits[one.ID] = by
	return name, by, now
}

// candidates are hosts that may be visited, by score, as a governor sees them.
type candidates struct {
	of    *chooser
	names []string
}

// At implements bandwidth.Queue.
func (c candidates) At(depth int) (bandwidth.Candidate, bool) {
	if depth >= len(c.names) {
		return bandwidth.Candidate{}, false
	}
	it, ok := c.of.m.frontier.Peek(c.names[depth])
	var server netip.Addr
	if h := c.of.m.hosts[c.names[depth]]; h != nil {
		server = h.addr()
	}
	return bandwidth.Candidate{ID: it.Serial, Server: server}, ok
}

// sample periodically reports the progress of the running exchanges to the governor.
func (c *chooser) sample(now time.Time) {
	if now.Sub(c.sampled) < c.governor.Every() {
		return
	}
	c.sampled = now
	for id, g := range c.visits {
		p := bandwidth.Progress{Bytes: g.progress.Bytes.Load(), Left: -1, Held: time.Duration(g.progress.Held.Load())}
		if total := g.progress.Total.Load(); total > 0 {
			p.Left = max(total-p.Bytes, 0)
		}
		c.governor.Sample(now, id, p)
	}
}

// ended reports the end of a visit to the governor that admitted it.
func (c *chooser) ended(now time.Time, g *governed) {
	if g == nil || c.governor == nil || c.visits[g.id] != g {
		return // the limit was removed meanwhile
	}
	delete(c.visits, g.id)
	c.governor.End(now, g.id, g.result)
}
