package owner

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/wire"
)

// entry is the authorization of a caller for a host.
type entry struct {
	answer hosts.Answer // owner of the host; the other fields are set for Here only
	host   *hosts.Host  // nil: unknown host
	held   bool         // the caller holds the lease that it names
	heard  bool         // the caller may report outcomes of the host
}

// enter authorizes a request of another peer about a host, before anything of the host is read. All
// checks on callers belong here. The caller is a worker with its session, which may name the epoch
// of a lease, or a sender of links with neither.
//
// For an answer other than Here, the caller asks the other owner, or retries. Workers get no answer
// while records may be missing, since one of them may be a lease.
func enter(t *hosts.Table, s *hosts.Session, name string, epoch *wire.Epoch) (e entry) {
	if s == nil {
		e.answer = t.AnswersFor(name)
	} else {
		e.answer = t.SpeaksFor(name, s, epoch)
	}
	if e.answer == hosts.Here {
		e.host = t.Find(name)
		e.heard = s != nil && reportsOf(t, s, e.host)
		e.held = s != nil && e.host.LeasedTo(s, epoch) // not renewed here: outcomes may follow an expired lease
	}
	return e
}

// reportsOf reports whether a worker may report outcomes of a host: it has the host, or had it. A
// neighbor may have had it under an earlier owner whose record did not arrive in time; its outcomes
// would be lost otherwise.
func reportsOf(t *hosts.Table, s *hosts.Session, h *hosts.Host) bool {
	return s.Peer == t.Cfg.Self || h != nil && h.Worked(s.Peer) || t.Near(s)
}

// Worked reports whether a peer is or was the host's worker. Part of a step.
func (o *Owner) Worked(peer, host string) bool {
	h := o.hosts.Find(host)
	return h != nil && h.Worked(peer)
}
