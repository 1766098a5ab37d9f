// Package owner is the owner's side of a host: what is known of its URLs, what is pending, what is
// out, and to whom the host is leased.
//
// Its words:
//
//   - host record: everything about a host; all its keys begin with the host's ring position, so an
//     arc of the ring is one range of keys.
//   - URL entry: the exact member of a URL set: eight bytes of hash, and where the URL stands:
//     pending at a depth, or done with an outcome.
//   - pending record: a URL that waits. Ready ones lie in the order of depth and arrival, delayed
//     ones (another try) in the order of their due time. A leased URL keeps its pending record
//     until its outcome comes, so after a crash it is pending again.
//   - lease: the grant of one host to one worker for TTL from the last renewal, named by its epoch.
//     item: one URL out under a lease.
//   - lapse: the end of a lease whose worker was not heard of since it named it. It is no try, but
//     four of them, two when it was out alone, quarantine a URL.
//   - hang: a request that the host took and of which nothing came. It is the URL's, and parts of
//     the host that hang go last; many in a row are a failure of the host.
//   - outbox: links for other owners, written in one batch with the outcome of the page they stand
//     on.
//   - fate: the outcome that all pending URLs of a job on a host get without being tried: its
//     budget is used up, the host is down, it was canceled.
//   - settled: all records of a key that others may hold have arrived. Before, an owner takes links
//     and says nothing of the host to workers.
//   - frozen: a host on its way to another owner; its lease goes along as a note, and is adopted
//     there under the same epoch.
//
// [Owner] is a plain state machine in steps: [Owner.Begin] with the time, any number of inputs,
// [Owner.Commit]. It has no goroutine, clock, lock or network; one goroutine (or a simulator)
// drives it. All inputs of a step land in at most a few batches of the [kv.Store], each of which is
// whole: an outcome is never without the links of its page. [Owner.Within] bounds what a step takes
// in; a [Visit], a [Delivery] or a [Merge] that is longer goes on in later steps, the links of a
// page ahead of its outcome. Commit applies them and returns a [Ready]: its Wait says when they are
// on disk, and only then may replies and effects leave. The next step may begin before that; Readys
// are to be released in their order.
//
// An Owner brings events to its parts, and has rooms of its own: package hosts is the table of
// hosts, with who has one and when it is looked at next; package links takes links in and sends
// them out; package leases gives hosts to workers; package ledger has the books of URLs, and alone
// writes their records and what is counted of them. What a host, or a job, is in the middle of is
// kept by plain types, each with the table of its states and a test that drives it alone: search
// (for a worker), Tenure (who has the host), purges, package budget (of a job) and package outbox.
// Here is what takes messages in: the door, visits of workers, their reports, moves, and what ends
// URLs. parts.go has the parts in an order in which each names the ones above it that it uses, so
// there is no circle. What a record is on disk is package ondisk's, and package buffer makes
// batches of what a step writes.
//
// A change is an event: the ledger lists the accounts that have changed, and a part that changes a
// host's record, or who has the host, says so. When the step ends, or hosts are looked at, all of
// them are scheduled, in one place.
//
// Memory does not grow with URLs or hosts: pending URLs stay in the store until granted, hosts
// without a lease are dropped beyond [Config.MaxHosts] and found again by an index of hosts with
// work, outbox links beyond [Config.MaxOutbox] wait on disk.
//
// What always holds, and is tested by name: never two live leases of one host; accepted URLs =
// pending + leased + outcomes, for each job and host, also after a crash between any two batches;
// no budget is overshot; the smallest depth met wins, whatever the order of arrival; copies of
// records merge to the same, in whatever order and however often.
//
// # How a crawl ends
//
// A job is over when no URL of it is pending, leased, waiting for another try or in an outbox.
// Waits are bounded, but a site may ask for a day (Retry-After), and a host that fails is left
// alone ever longer. So each owner tells (crawl/owner/waits.go, node/view/patience.go) what waits,
// for which reason, and how many URLs have their next try further away than --patience: these are
// *put off*. --until-idle and --wait end when nothing else is left anywhere on the ring, or when
// nothing was fetched for a little longer than the patience, since a site may ask for a little less
// again and again. The patience decides only when somebody stops waiting: URLs that are put off
// stay pending, and whoever runs at their time takes them up.
//
// # The loop that drives it
//
// One goroutine drives an Owner. It takes in all requests that wait, applies each to the state
// machine, and commits what they changed as a few batches of the store, each of them whole. A
// second goroutine waits for the disk and then releases answers and effects in their order. So any
// number of reports share one fsync, nobody holds a lock over the disk, and nothing is acknowledged
// that a crash could lose.
//
// A step is bounded: it takes requests in for 10 ms, sixteen pieces at least, and at most 2,000
// writes. What is longer goes on in the next steps, before any other request: a page that links to
// 50,000 hosts in pieces of 128 links, the records that another peer hands over one by one. It is
// acknowledged with its last piece, and the outcome of a page is written behind its links. The
// state machine does not look at a clock for that: between two pieces it asks whether there is
// room.
//
// While the message of a worker is being taken in, the leases that it names as held do not run out:
// the worker is alive and waits for the answer. Nor does a lease run out while requests wait that
// came before its end, since one of them may renew it. A message has 8,192 links at most, so that
// the answer comes before the worker's own deadline.
//
// Questions (status, metrics, why) are answered before all requests that wait, and between two
// pieces of a step, also while a disk or a replica is slow. What concerns all hosts in memory, such
// as a change of the ring, is done for a thousand of them in each step. Hosts that wait for a
// worker while all workers are full stand in a queue, in which registrable domains have turns; as
// many hosts are placed at a time as were taken.
package owner
