package visits

import (
	"errors"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/permit"
)

// ErrNoPermit means that an address has no permits left for now, or that other workers have the
// time slice of a domain.
var ErrNoPermit = errors.New("no permit for another request to this address or domain")

// permitLook bounds how long a host is held before it is checked again.
const permitLook = time.Second

// Permits takes the permits for requests to addresses and domains, as a permit.Wallet does. Safe
// for concurrent use, if requests are made by several goroutines.
type Permits interface {
	// Take takes a permit for a host, valid until then; without one, at is when to try again.
	Take(now time.Time, k permit.Key, host string) (ok bool, at time.Time)
	// GiveBack returns an unused permit.
	GiveBack(now time.Time, k permit.Key, until time.Time)
	// Hold returns until when there is no permit for a key; zero if there is one.
	Hold(now time.Time, k permit.Key) time.Time
}

// keys are those for which a request needs permits, zero ones excepted: domain and address.
type keys [2]permit.Key

func keysOf(domain string, addr netip.Addr) keys {
	return keys{{Domain: domain}, permit.Address(addr)}
}

// pass holds the permits taken for a visit, before its request is certain.
type pass [len(keys{})]struct {
	key   permit.Key
	until time.Time // validity; zero: no permit
}

// use reports whether the permit for a key allows a request, and consumes it.
func (p *pass) use(now time.Time, i int, k permit.Key) bool {
	ok := now.Before(p[i].until) && p[i].key == k
	if ok {
		p[i].until = time.Time{}
	}
	return ok
}

// domain returns the domain of a host if domains have a delay, else "".
func (c *Config) domain(host string) string {
	if c.Permits == nil || c.Politeness.GroupDelay == 0 {
		return ""
	}
	return c.Politeness.Group(host)
}

// hold keeps a visit open if there is no permit for it, so that its host and address are not
// visited; else the visit has a pass.
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

// keep marks a host as held.
func (m *Machine) keep(name string) {
	m.held[name] = struct{}{}
	m.frontier.Waits(name)
}

// giveBack returns the unused permits of a pass.
func (m *Machine) giveBack(now time.Time, p *pass) {
	for _, one := range p {
		if !one.until.IsZero() {
			m.cfg.Permits.GiveBack(now, one.key, one.until)
		}
	}
}

// LetGo ends the visits of hosts for which there are permits again, or of all held hosts. It
// returns their number, and when to check the others.
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
