package visits

import (
	"errors"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/permit"
)

// ErrNoPermit says that an address has had its requests for now, or that others have their turn at
// a domain.
var ErrNoPermit = errors.New("no permit for another request to this address or domain")

// permitLook is how long a host is held at most before it is looked at again.
const permitLook = time.Second

// Permits has the permits for requests to addresses and domains, as a permit.Wallet does. Safe for
// concurrent use, if requests are made by several goroutines.
type Permits interface {
	// Take takes a permit for a host, which holds until then; without one, at is when to look again.
	Take(now time.Time, k permit.Key, host string) (ok bool, at time.Time)
	// GiveBack returns one with which no request was made.
	GiveBack(now time.Time, k permit.Key, until time.Time)
	// Hold is until when there is no permit for a key; zero if there is one.
	Hold(now time.Time, k permit.Key) time.Time
}

// keys are what a request needs permits for, those that are zero aside: domain and address.
type keys [2]permit.Key

func keysOf(domain string, addr netip.Addr) keys {
	return keys{{Domain: domain}, permit.Address(addr)}
}

// pass is the permits taken for a visit, before it is known whether it comes to a request.
type pass [len(keys{})]struct {
	key   permit.Key
	until time.Time // it holds; zero: there is none
}

// use says whether a request may be made with the permit for a key, and is made.
func (p *pass) use(now time.Time, i int, k permit.Key) bool {
	ok := now.Before(p[i].until) && p[i].key == k
	if ok {
		p[i].until = time.Time{}
	}
	return ok
}

// domain is that of a host, if the hosts of one have a delay; else empty.
func (c *Config) domain(host string) string {
	if c.Permits == nil || c.Politeness.GroupDelay == 0 {
		return ""
	}
	return c.Politeness.Group(host)
}

// hold keeps a visit open, and so its host and address from being visited, if there is no permit
// for it; else the visit has a pass.
func (m *Machine) hold(now time.Time, h *host) (p pass, held bool) {
	if m.cfg.Permits == nil || h == nil {
		return p, false
	}
	for i, k := range keysOf(h.domain, h.addr()) {
		if k == (permit.Key{}) {
			continue
		}
		ok, at := m.cfg.Permits.Take(now, k, h.Host)
		if !ok {
			m.giveBack(now, &p)
			m.keep(h.Host)
			return p, true
		}
		p[i].key, p[i].until = k, at
	}
	return p, false
}

// keep has a host held.
func (m *Machine) keep(name string) {
	m.held[name] = struct{}{}
	m.frontier.Waits(name)
}

// giveBack returns what was not used of a pass.
func (m *Machine) giveBack(now time.Time, p *pass) {
	for _, one := range p {
		if !one.until.IsZero() {
			m.cfg.Permits.GiveBack(now, one.key, one.until)
		}
	}
}

// LetGo ends the visits of hosts for which there are permits again, or of all that are held, and
// says how many, and when to look at the others.
func (m *Machine) LetGo(now time.Time, all bool) (free int, next time.Duration) {
	next = time.Hour
	for name := range m.held {
		var until time.Time
		if h := m.hosts[name]; h != nil && !all {
			for _, k := range keysOf(h.domain, h.addr()) {
				if k != (permit.Key{}) && until.IsZero() {
					until = m.cfg.Permits.Hold(now, k)
				}
			}
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
