// Package ledger keeps the books of the URLs of hosts: which URLs a host has in a job, which of
// them wait, which are out at a worker, and what became of the others. It alone writes the records
// of URLs and the counters of jobs on hosts, and so it keeps, for each job and host, at any moment
// and after a crash between any two batches:
//
//	accepted = pending + out + done
//
// An [Account] is the books of one job on one host. A URL goes through it like this; each arrow is
// one call, and what it writes is part of one batch:
//
//	Accept → pending → Lease → out → Conclude → done
//	             ↑               |
//	             +— Return, Wait +
//
// A pending record is ready, in the order of depth and arrival, or delayed until its due time. One
// that is out keeps its record, so that after a crash it is pending again. A [Job] has the sums
// over the accounts of a peer, and the peer's part of the job's budget: a URL that is granted has a
// part of it promised, which is settled with its outcome.
//
// A change is an event: [Ledger.Changed] lists the accounts that were changed since it was asked
// last. Who has the host, and when it is looked at next, are not the ledger's business. Not safe
// for concurrent use.
package ledger
