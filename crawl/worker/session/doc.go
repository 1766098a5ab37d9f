// Package session implements the protocol between a worker and the owners of hosts as a plain state
// machine: it has no goroutine, no lock and no clock, and sends nothing itself. Only Lease.Holds
// may be called concurrently.
//
// Terms:
//
//   - session: the exchange of messages with one owner. One message is under way at a time; it
//     renews all leases, delivers reports, requests URLs and gives hosts back, and its answer
//     brings grants.
//   - renewal: a concurrent message that only renews the leases, when no answer has renewed them
//     for three eighths of the TTL: the disk is slow, or the processor busy.
//   - lease: permission to send requests to one host, until three quarters of its TTL have passed
//     since the message was sent that got or renewed it; or the request for one, from the offer
//     until the grant.
//   - window: the URLs of a host that were granted and not tried yet; more are requested when half
//     of it is left.
//   - report: an outcome in transit to the owner.
//   - release: a host in transit back to its owner.
//   - dry: a host without any work, here or in transit to the owner.
//
// # How to drive it
//
// Events are the exported methods of Machine: an offer, a report, an answer, a change in the work
// of a host. They take the time. The machine calls a Driver, which holds the windows and makes the
// requests; it must act at once, because the next query of the machine needs its current state.
// Wake announces that a session is due sooner, or over. A driver then sends messages like this:
//
//	if s.Over() { m.End(s); return }
//	wait until s.Due()
//	n := s.Begin()
//	sync to disk what the reports refer to
//	t := m.Turn(now, s, min(n, s.Ready()), news)
//	send t.Message
//	m.Answered(now, s, t, answer, ...), or m.Unanswered(now, s, t) and m.Follow(now, s, routes)
//
// and meanwhile, every eighth of the TTL, the message of m.Renewal; m.Renewed takes the answer.
//
// There are two clocks. Times are wall time, and only schedule messages. A lease ends by the lease
// clock, which counts suspend: a Duration since its start.
//
// # Guarantees
//
// Only an answer that renews a lease prolongs it, counted from before the message was sent. A
// report is retained until the owner has it on disk, or until reports for an owner that rejects
// them exceed a bound. A host that moves takes its lease, its reports and its release along to the
// presumed new owner. A host has at most one lease, and a URL fetched under an earlier one, and not
// reported yet, is not fetched again.
//
// The same events in the same order produce the same messages.
package session
