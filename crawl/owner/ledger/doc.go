// Package ledger implements the URL store of hosts: the URLs of a host in a job, their states and
// outcomes. It alone writes the records of URLs and the counters of jobs on hosts, and so
// maintains, for each job and host, at any moment and after a crash between any two batches:
//
//	accepted = pending + out + done
//
// An [Account] holds the URLs of one job on one host. Each arrow is one call, and its writes are
// part of one batch:
//
//	Accept → pending → Lease → out → Conclude → done
//	             ↑               |
//	             +— Return, Wait +
//
// A pending record is ready, ordered by depth and arrival, or delayed until its due time. A URL
// that is out keeps its record, so it is pending again after a crash. A [Job] holds the sums over
// the accounts of a peer, and the peer's part of the job's budget: a grant reserves a part of it
// for the URL, which is settled with the outcome.
//
// A change is an event: [Ledger.Changed] lists the accounts changed since its last call. Leases and
// the schedule of hosts are not part of the ledger. Not safe for concurrent use.
package ledger
