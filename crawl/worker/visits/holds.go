package visits

import (
	"errors"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/permit"
)

// ErrNoPermit says that an address has had its requests for now.
var ErrNoPermit = errors.New("no permit for another request to this address")

// permitLook is how long a host is held at most before it is looked at again.
const permitLook = time.Second

// Permits has the permits for requests to addresses, as a permit.Wallet does. Safe for concurrent
// use, if requests are made by several goroutines.
type Permits interface {
	// Take takes a permit, which holds until then; without one, at is when to look again.
	Take(now time.Time, addr netip.Addr) (ok bool, at time.Time)
	// GiveBack returns one with which no request was made.
	GiveBack(now time.Time, addr netip.Addr, until time.Time)
	// Hold is until when there is no permit for an address; zero if there is one.
	Hold(now time.Time, addr netip.Addr) time.Time
}

// pass is a permit taken for a visit, before it is known whether it comes to a request.
type pass struct {
	addr  netip.Addr
	until time.Time // it holds; zero: there is none
}

// use says whether a request to an address may be made with it, and is made.
func (p *pass) use(now time.Time, addr netip.Addr) bool {
	if !now.Before(p.until) {
		return false
	}
	here, _ := permit.PrefixOf(addr)
	of, ok := permit.PrefixOf(p.addr)
	if ok = ok && of == here; ok {
		*p = pass{}
	}
	return ok
}

// hold keeps a visit open, and so its host and address from being visited, if there is no permit
// for it; else the visit has a pass.
func (m *Machine) hold(now time.Time, h *host) (p pass, held bool) {
	if m.cfg.Permits == nil || h == nil || len(h.addrs) == 0 {
		return p, false
	}
	ok, at := m.cfg.Permits.Take(now, h.addr())
	if ok {
		return pass{h.addr(), at}, false
	}
	m.held[h.Host] = struct{}{}
	return p, true
}

// giveBack returns a pass that was not used.
func (m *Machine) giveBack(now time.Time, p pass) {
	if !p.until.IsZero() {
		m.cfg.Permits.GiveBack(now, p.addr, p.until)
	}
}

// LetGo ends the visits of hosts for which there are permits again, or of all that are held, and
// says how many, and when to look at the others.
func (m *Machine) LetGo(now time.Time, all bool) (free int, next time.Duration) {
	next = time.Hour
	for name := range m.held {
		var until time.Time
		if h := m.hosts[name]; h != nil && len(h.addrs) > 0 && !all {
			until = m.cfg.Permits.Hold(now, h.addr())
		}
		if until.IsZero() {
			delete(m.held, name)
			m.frontier.Free(name)
			free++
			continue
		}
		next = min(next, max(until.Sub(now), 10*time.Millisecond), permitLook)
	}
	return free, next
}
