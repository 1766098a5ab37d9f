// Package owner manages the hosts that a peer owns: their URL sets, pending URLs, leases and
// budgets.
//
// Terms:
//
//   - host record: the state of a host. All keys of a host begin with its ring position, so an arc
//     of the ring is one range of keys.
//   - URL entry: the exact member of a URL set: an eight-byte hash and the state of the URL, which
//     is pending at a depth, or done with an outcome.
//   - pending record: a URL without an outcome. Ready records are ordered by depth and arrival,
//     delayed records (retries) by due time. A leased URL keeps its pending record until its
//     outcome arrives, so it is pending again after a crash.
//   - lease: the grant of one host to one worker, for TTL from the last renewal, identified by its
//     epoch. An item is one URL out under a lease.
//   - lapse: the end of a lease that its worker stopped renewing. It does not count as a try, but
//     four lapses, two of them when it was out alone, quarantine a URL.
//   - timeout: a request that the host accepted and did not answer. It is attributed to the URL,
//     and slow parts of a host are fetched last; many in a row are a failure of the host.
//   - outbox: links for other owners, written in one batch with the outcome of their page.
//   - fate: the outcome that all pending URLs of a job on a host get without being tried: its
//     budget is exhausted, the host is down, or the job was canceled.
//   - visit: a page that has its outcome is fetched again. It stays done, so that neither counters
//     nor the end of a crawl depend on visits; see hosts/visits.go and package fresh.
//   - lease certificate: the owner's signature of host, worker and epoch. An outcome that arrives
//     after the end of its lease, or at another owner, is accepted with it.
//   - check: a page that other workers fetch again, to compare their reports with the first one.
//   - synced: all records of a key that other peers may hold have arrived. Until then an owner
//     accepts links, but answers no worker about the host.
//   - frozen: a host that is being handed off. Its lease is transferred as a note, and adopted by
//     the next owner under the same epoch.
//
// [Owner] is a state machine driven in steps: [Owner.Begin] with the time, any number of inputs,
// [Owner.Commit]. It has no goroutine, clock, lock or network; one goroutine (or a simulator)
// drives it. The inputs of a step are written in a few atomic batches of the [kv.Store]: an outcome
// is never stored without the links of its page. [Owner.Within] bounds a step; a longer [Visit],
// [Delivery] or [Merge] continues in later steps, with the links of a page stored before its
// outcome. Commit returns a [Ready]: replies and effects may be released only after its Wait has
// returned, in the order of the Readys. The next step may begin before that.
//
// An Owner dispatches events to its parts. Package hosts is the table of hosts: their leases and
// their schedule. Package links receives and sends links, package leases assigns hosts to workers,
// and package ledger alone writes the records and counters of URLs. Plain types hold the state of a
// host or a job, each with a table of its states and a test that drives it alone: search (for a
// worker), Tenure (of a lease), purges, ledger.Budget (of a job) and links.Outbox. This package
// handles messages: the entry check, those of workers, their reports, handoffs, and the end of
// URLs. owner.go lists the parts in dependency order, so there is no cycle. Package ondisk defines
// the records, and its Buffer makes batches of the writes of a step.
//
// A change is an event: the ledger lists the accounts that have changed, and a part that changes a
// host's record or lease reports the host. All of them are scheduled in one place, at the end of a
// step or before hosts are evaluated.
//
// Memory does not grow with URLs or hosts. Pending URLs stay in the store until granted. Hosts
// without a lease are evicted beyond [Config.MaxHosts] and reloaded through an index of hosts with
// work. Outbox links beyond [Config.MaxOutbox] stay on disk.
//
// Invariants, each tested by name: a host has at most one live lease; accepted URLs = pending +
// leased + outcomes, for each job and host, also after a crash between any two batches; no budget
// is exceeded; the smallest depth found wins, in any order of arrival; merging copies of records is
// commutative, associative and idempotent.
//
// # How a crawl ends
//
// A job is finished when none of its URLs is pending, leased, waiting for a retry or in an outbox.
// Waits are bounded, but a site may ask for a day (Retry-After), and the backoff of a failing host
// grows. So each owner reports (crawl/owner/counts.go, node/ops/inspect/status.go) what waits,
// why, and how many URLs have their next try later than --patience: these are *deferred*.
// --until-idle and --wait end when nothing else is left on the ring, or when nothing was fetched
// for slightly longer than the patience, since a site may repeat a slightly shorter delay. The
// patience only ends the waiting of a command: deferred URLs stay pending, and a peer that runs at
// their due time fetches them.
//
// # The loop that drives it
//
// One goroutine drives an Owner. It takes all queued requests, applies each to the state machine,
// and commits the changes as a few atomic batches of the store. A second goroutine waits for the
// disk and then releases replies and effects in order. So any number of reports share one fsync, no
// lock is held during disk writes, and nothing is acknowledged that a crash could lose.
//
// A step is bounded: it takes requests for 10 ms, at least four pieces, and at most 2,000
// writes. Longer requests continue in the next steps, before any other request: a page with links
// to 50,000 hosts in pieces of 128 links, the records of a handoff one by one. A request is
// acknowledged with its last piece, and the outcome of a page is written after its links. The state
// machine reads no clock for that: it calls a function between two pieces.
//
// While a worker's message is being processed, the leases that it lists as held do not expire: the
// worker is alive and waits for the reply. Nor does a lease expire while requests are queued that
// arrived before its end, since one of them may renew it. A message has at most 8,192 links, so
// that the reply precedes the worker's own deadline.
//
// Queries (status, metrics, why) are answered before all queued requests, and between two pieces of
// a step, also while a disk or a replica is slow. Changes that affect all hosts in memory, such as
// a change of the ring, are applied to a thousand hosts per step. While all workers are full,
// unassigned hosts are queued, and the queue serves registrable domains in turn; the number of
// concurrent searches follows the number of hosts that workers accept.
package owner
