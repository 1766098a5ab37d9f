package inspect

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
)

// hostOf parses a host or URL entered by a user.
func hostOf(query string) (string, error) {
	canonical, err := link.Canonical(link.WithScheme(query))
	if err != nil {
		return "", control.Usage(fmt.Sprintf("%q: %v", query, err))
	}
	return link.Host(canonical), nil
}

// Lookup implements control.Backend.
func (v *View) Lookup(ctx context.Context, query string) (*control.Lookup, error) {
	host, err := hostOf(query)
	if err != nil {
		return nil, err
	}
	key := ring.HostKey(host)
	l, err := v.deps.Ring.DHT.Lookup(ctx, key)
	if err != nil {
		return nil, err
	}
	out := &control.Lookup{
		Query: query, Host: host, Key: key.Hex(), Owner: l.Owner.ID.String(), Calls: l.Calls,
		Arc: [2]string{l.Arc.Start.Hex(), l.Arc.End.Hex()}, Trace: []control.LookupHop{},
	}
	out.Name = v.PeerName(out.Owner)
	if addrs := v.deps.Ring.Net.AddrsOf(l.Owner.ID); len(addrs) > 0 {
		out.Addr = addrs[0]
	}
	for _, h := range l.Trace {
		hop := control.LookupHop{Peer: h.Peer.ID.String(), LatencyMs: float64(h.Latency.Microseconds()) / 1000}
		switch {
		case h.Err != nil:
			hop.Answer = h.Err.Error()
		case h.Final:
			hop.Answer = "owner"
		case len(h.Next) > 0:
			hop.Answer = "next: " + member.Short(h.Next[0].ID)
		default:
			hop.Answer = "no closer peer known"
		}
		out.Trace = append(out.Trace, hop)
	}
	return out, nil
}

// Host implements control.Backend.
func (v *View) Host(ctx context.Context, query string) (*control.Host, error) {
	host, err := hostOf(query)
	if err != nil {
		return nil, err
	}
	h, err := askOwner[control.Host](ctx, v, ring.HostKey(host), askHost+" "+host)
	if err == nil {
		h.Names = v.called(ctx, mentioned(h)...)
	}
	return h, err
}

func (v *View) hostHere(ctx context.Context, host string) (*control.Host, error) {
	key := ring.HostKey(host)
	if !v.deps.Ring.DHT.Serves(key) {
		return nil, v.deps.Ring.Router.Moved(key)
	}
	h := &control.Host{Host: host, Key: key.Hex(), Owner: v.deps.Self.String()}
	var d owner.HostDetail
	if err := v.deps.Hosts.Look(ctx, func(o *owner.Owner) { d, h.Known = o.Host(host) }); err != nil || !h.Known {
		h.OptedOut = v.deps.Crawl.OptOuts.Host(host)
		return h, err
	}
	now := v.deps.Hosts.Now()
	if d.Worker != "" {
		h.Worker, h.LeaseS = peer.ID(d.Worker).String(), max(d.LeaseEnds.Sub(now).Seconds(), 0)
		h.Epoch = fmt.Sprintf("%d@%s", d.Epoch.Counter, member.Short(peer.ID(d.Epoch.Peer)))
	}
	for _, raw := range d.Addrs {
		if a, ok := netip.AddrFromSlice(raw); ok {
			h.Addrs = append(h.Addrs, a.String())
		}
	}
	if !d.NotBefore.IsZero() {
		h.NotBeforeS, h.Backoff = max(d.NotBefore.Sub(now).Seconds(), 0), d.Backoff
		h.PutOff = d.NotBefore.After(owner.Horizon(d.Mute, now, v.horizon(v.deps.About.Patience)))
	}
	if h.Fails = d.Fails; d.Fails > 0 {
		h.FailOutcome = d.FailOutcome.String()
	}
	if h.OptedOut = d.OptedOut; !d.OptedOutAt.IsZero() {
		h.OptedOutS = secondsSince(d.OptedOutAt, now)
	}
	for origin, s := range d.Robots {
		h.Robots = append(h.Robots, robotsLine(origin, &s, time.Now()))
	}
	h.Jobs = d.Jobs
	budgets := v.deps.About.Budgets
	h.Budgets = &budgets
	v.explainPlacement(h, &d, now)
	return h, nil
}

// robotsLine returns the state of an origin's robots.txt.
func robotsLine(origin string, s *robots.State, now time.Time) control.RobotsLine {
	l := control.RobotsLine{Origin: origin, Verdict: s.Verdict.String(), Bytes: s.Length, Failures: s.Failures}
	if !s.Fetched.IsZero() {
		l.AgeS = secondsSince(s.Fetched, now)
	}
	if s.Expires.After(now) {
		l.NextS = s.Expires.Sub(now).Seconds()
	}
	return l
}

// explainPlacement sets the candidates of a host's placement, their measurements, and the reason of
// the choice.
func (v *View) explainPlacement(h *control.Host, d *owner.HostDetail, now time.Time) {
	if d.Placed != "" {
		h.PlacedAt, h.PlacedBy, h.PlacedWhy, h.PlacedS = peer.ID(d.Placed).String(), v.deps.About.Placement, d.PlacedWhy, secondsSince(d.PlacedAt, now)
	}
	for _, m := range d.Measured {
		line := control.Measurement{
			Peer: peer.ID(m.Peer).String(), RTTMs: float64(m.RTTUs) / 1000, Error: m.Error, Chosen: m.Peer == d.Placed,
		}
		if addr := member.FirstIP(v.deps.Ring.Net.AddrsOf(peer.ID(m.Peer))); addr.IsValid() {
			line.Addr = addr.String()
		}
		h.Placement = append(h.Placement, line)
	}
	h.Coordinate = v.deps.Placing.Placer.Coordinate(d, h.Host, time.Now())
	h.LatencyRow = v.latencyRow(d.Addrs)
}

// latencyRow returns the row of a host in the matrix of emulated latencies, nil if there is none.
func (v *View) latencyRow(addrs [][]byte) *int {
	if v.deps.Placing.SiteRow == nil || len(addrs) == 0 {
		return nil
	}
	if addr, ok := netip.AddrFromSlice(addrs[0]); ok {
		if row, ok := v.deps.Placing.SiteRow(addr); ok {
			return &row
		}
	}
	return nil
}

// Why implements control.Backend.
func (v *View) Why(ctx context.Context, raw string) (*control.Why, error) {
	canonical, err := link.Canonical(link.WithScheme(raw))
	if err != nil {
		return &control.Why{Input: raw, URL: raw, Text: "never crawled: " + err.Error(), Jobs: []control.WhyLine{}}, nil
	}
	w, err := askOwner[control.Why](ctx, v, ring.HostKey(link.Host(canonical)), askWhy+" "+canonical)
	if err == nil {
		w.Input, w.Canonical = raw, raw == canonical
		v.explainLeftOut(ctx, w)
	}
	return w, err
}

// leftOutTime is the timeout for asking the ring whether links to a URL were dropped.
const leftOutTime = 2 * time.Second

// explainLeftOut notes for an unknown URL that pages of the job had more links than were accepted.
func (v *View) explainLeftOut(ctx context.Context, w *control.Why) {
	if !slices.ContainsFunc(w.Jobs, func(l control.WhyLine) bool { return l.State == "unknown" }) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leftOutTime)
	defer cancel()
	r, err := v.walker.walk(ctx)
	if err != nil {
		return
	}
	left := make(map[string]int64)
	for i := range r.Members {
		for k := range r.Members[i].Jobs {
			left[r.Members[i].Jobs[k].Job] += r.Members[i].Jobs[k].LinksLeftOut
		}
	}
	for i := range w.Jobs {
		if l := &w.Jobs[i]; l.State == "unknown" && left[l.Job] > 0 {
			l.LinksLeftOut = left[l.Job]
			l.Text += fmt.Sprintf("; %d links of the job's pages were dropped: size limits of one page", l.LinksLeftOut)
		}
	}
}

func (v *View) whyHere(ctx context.Context, url string) (*control.Why, error) {
	host := link.Host(url)
	key := ring.HostKey(host)
	if !v.deps.Ring.DHT.Serves(key) {
		return nil, v.deps.Ring.Router.Moved(key)
	}
	w := &control.Why{URL: url, Host: host, Owner: v.deps.Self.String(), Jobs: []control.WhyLine{}}
	var fates []owner.Fate
	if err := v.deps.Hosts.Look(ctx, func(o *owner.Owner) { fates = o.Why(url) }); err != nil {
		return nil, err
	}
	now := v.deps.Hosts.Now()
	for i := range fates {
		w.Jobs = append(w.Jobs, whyLine(&fates[i], now, v.horizon(v.deps.About.Patience)))
	}
	if why, err := v.whyOptedOut(ctx, url); err != nil || why != "" {
		w.Text = why
		return w, err
	}
	if len(w.Jobs) == 0 {
		w.Text = "no job has a URL of this host"
	}
	return w, nil
}

// whyOptedOut returns why a URL or its host is opted out, empty if it is not.
func (v *View) whyOptedOut(ctx context.Context, url string) (why string, err error) {
	if why = v.deps.Crawl.OptOuts.URL(url); why != "" {
		return why, nil
	}
	var found string
	if err := v.deps.Hosts.Look(ctx, func(o *owner.Owner) {
		if d, ok := o.Host(link.Host(url)); ok {
			found = d.OptedOut
		}
	}); err != nil {
		return "", err // e.g. not yet on disk
	}
	return found, nil
}

func whyLine(f *owner.Fate, now, horizon time.Time) control.WhyLine {
	l := control.WhyLine{Job: f.Job.String(), State: f.State, Depth: f.Final.Depth, Tries: int(f.Final.Tries)}
	switch f.State {
	case "done":
		l.Outcome, l.Status = f.Final.Outcome.String(), f.Final.Status
		l.Text = fmt.Sprintf("done at depth %d: %s", l.Depth, l.Outcome)
		if l.Status != 0 {
			l.Text += fmt.Sprintf(", status %d", l.Status)
		}
		if f.Final.Target() != "" {
			l.Text += " to " + f.Final.Detail
		} else if f.Final.Detail != "" {
			l.Text += " (" + f.Final.Detail + ")"
		}
		l.Text += map[string]string{"robots_denied": ": robots.txt forbids this URL", "noindex": ": page not archived; to archive it: --archive-noindex"}[l.Outcome]
		if n := f.Final.LeftOut; n > 0 {
			l.LinksLeftOut = int64(n)
			l.Text += fmt.Sprintf("; %d of its links dropped: size limits of one page", n)
		}
		whyAgain(&l, f.Again)
	case "waiting":
		l.Text = fmt.Sprintf("waiting for try %d, %s", l.Tries+1, due(f.Due, now))
		whyLate(&l, f, now, horizon)
	case "pending":
		l.Text = fmt.Sprintf("pending at depth %d", l.Depth)
		whyLate(&l, f, now, horizon)
	case "leased":
		l.Text = fmt.Sprintf("leased at depth %d", l.Depth)
	default:
		l.Text = "unknown to this job: no link found"
		if f.Trap != "" {
			l.Text += "; similar URLs are skipped: " + f.Trap
		}
		if f.Refusal != "" {
			l.State, l.Text = "not_admitted", "not admitted: "+f.Refusal
		}
	}
	return l
}

// whyAgain adds the visits of a page after it was fetched first.
func whyAgain(l *control.WhyLine, a *owner.Again) {
	if a == nil {
		return
	}
	l.Again = &control.Visits{Visits: a.Visits, Changes: a.Changes, Rate: a.Rate, Last: a.Last, Text: a.Why}
	next := "no next visit"
	if !a.Next.IsZero() {
		l.Again.Next = &a.Next
		next = "next " + a.Next.UTC().Format(time.RFC3339)
	}
	every := "less than once in 100 years"
	if a.Rate > 1./36500 {
		every = fmt.Sprintf("a change in %.3g days", 1/a.Rate)
	}
	l.Text += fmt.Sprintf("; visits after the first: %d, with changes: %d, expected: %s; last %s, %s: %s", a.Visits, a.Changes, every, a.Last.UTC().Format(time.RFC3339), next, a.Why)
}

// whyLate adds the backoff or crawl delay of the URL's host.
func whyLate(l *control.WhyLine, f *owner.Fate, now, horizon time.Time) {
	next := f.Due
	if f.HostUntil.After(next) {
		next = f.HostUntil
	}
	if l.DueS = secondsUntil(next, now); next.IsZero() {
		return
	}
	if f.HostUntil.After(now) {
		l.Text += fmt.Sprintf("; next attempt in %v", f.HostUntil.Sub(now).Round(100*time.Millisecond))
		if f.HostFails > 0 {
			l.Text += fmt.Sprintf(" (consecutive failures: %d)", f.HostFails)
		}
		if f.HostWhy != "" {
			l.Text += ": " + f.HostWhy
		}
	}
	l.PutOff = next.After(owner.Horizon(f.HostMute, now, horizon))
	switch {
	case l.PutOff && f.HostMute:
		l.Text += "; deferred: the host never responded"
	case l.PutOff:
		l.Text += "; deferred: next attempt after --patience"
	}
}
