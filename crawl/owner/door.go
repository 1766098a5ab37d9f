package owner

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/wire"
)

// entry is what a caller may do with a host.
type entry struct {
	answer hosts.Answer // who is to be asked; what follows is of Here alone
	host   *hosts.Host  // nil: nothing is known of it
	held   bool         // the caller has it, under the lease that it names
	heard  bool         // outcomes of it are the caller's to report
}

// enter is the door: what another peer says of a host passes here, and nothing of the host is
// looked at before. A check on callers belongs here. The caller is a worker with its session, which
// may name the epoch of a lease, or with neither of them who brings links.
//
// An answer that is not Here is one that the caller acts on: it asks the other owner, or this one
// again. To a worker nothing is said while records may be missing, as a lease may be among them.
func enter(t *hosts.Table, s *hosts.Session, name string, epoch *wire.Epoch) (e entry) {
	if s == nil {
		e.answer = t.AnswersFor(name)
	} else {
		e.answer = t.SpeaksFor(name, s, epoch)
	}
	if e.answer == hosts.Here {
		e.host = t.Find(name)
		e.heard = s != nil && reportsOf(t, s, e.host)
		e.held = s != nil && e.host.LeasedTo(s, epoch) // not renewed by this: outcomes may come of a worker that has dropped the lease, as its time was over
	}
	return e
}

// reportsOf says whether the outcomes of a host are a worker's to report: it has the host, or had
// it. Who stands near may have had it under an earlier owner whose record did not come here in
// time: what it tells would be lost.
func reportsOf(t *hosts.Table, s *hosts.Session, h *hosts.Host) bool {
	return s.Peer == t.Cfg.Self || h != nil && h.Worked(s.Peer) || t.Near(s)
}

// Worked says whether a peer has a host as its worker, or had it. Part of a step.
func (o *Owner) Worked(peer, host string) bool {
	h := o.hosts.Find(host)
	return h != nil && h.Worked(peer)
}
