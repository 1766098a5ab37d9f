// Package session is what a worker and the owners of hosts say to each other, as a plain state
// machine: it has no goroutine, no lock and no clock, and sends nothing itself. Only Lease.Holds
// may be asked while it is at work.
//
// Its words:
//
//   - session: the conversation with one owner. One message is under way at a time; it renews all
//     leases, delivers reports, asks for URLs and gives hosts back, and its answer brings grants.
//   - renewal: a message beside it that renews the leases and does nothing else, when no answer has
//     renewed them for three eighths of the TTL: the disk is slow, or the processor busy.
//   - lease: the leave to ask one host, until three quarters of its TTL have gone by since the
//     message was sent that got or renewed it; or the wish for one, from the offer until it is
//     granted.
//   - window: the URLs of a host that were granted and not tried yet; more are asked for when half
//     of it is left.
//   - report: an outcome on its way to the owner.
//   - release: a host on its way back to its owner.
//   - dry: a host without anything to do, here or on its way to the owner.
//
// # How to drive it
//
// Events are the exported methods of Machine: an offer, a report, an answer, a change of what is
// done for a host. They take the time. What they lead to is asked of a Driver, which keeps the
// windows and makes the requests: they have to be up to date at the machine's next question, so it
// is told at once. Wake says that a session is due sooner, or over. A driver then sends messages
// like this:
//
//	if s.Over() { m.End(s); return }
//	wait until s.Due()
//	n := s.Begin()
//	have on disk what the reports speak of
//	t := m.Turn(now, s, min(n, s.Ready()), news)
//	send t.Message
//	m.Answered(now, s, t, answer, ...), or m.Unanswered(now, s, t) and m.Follow(now, s, routes)
//
// and meanwhile, every eighth of the TTL, what m.Renewal returns; m.Renewed takes the answer.
//
// There are two clocks. Times are those of the wall, and only say when to speak. A lease ends by
// the lease clock, which counts suspend: a Duration since its start.
//
// # What is promised
//
// A lease is prolonged by an answer that renews it and by nothing else, and counted from before the
// message was sent. What was reported is kept until the owner has it on disk, or says so often that
// it cannot take it that it goes beyond a bound. A host that moves takes its lease, its reports and
// its release along to the owner that is believed in. A host has one lease at most, and what was
// fetched under an earlier one, and not told yet, is not fetched again.
//
// The same events in the same order make the same messages.
package session
