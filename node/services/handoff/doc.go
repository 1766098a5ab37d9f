// Package handoff hands records off to their owners (rebalancing): when peers join, leave, die or
// return, when rings merge, after a restart. One mechanism handles all of these.
//
// # How records move
//
// A peer holds records of its own, and copies of the records of its predecessors
// ([storage/replica]). Whenever its view of the ring changes, a [Keeper] walks over both:
//
//   - Own records at positions of another owner are pushed to that peer, and removed here when it
//     acknowledges that they are on disk there and at its replicas. Until its copy here shows them
//     they are retained as a separate copy of it, which it cannot modify (see [Kept]).
//   - The copy of a peer may hold records that the peer no longer owns. If this peer owns them they
//     are taken over, that is merged into its own records, else pushed to their owner; then they
//     are deleted from the copy. A push of such records states how long ago the source left or
//     died: its leases expire a TTL after that, and a joining peer did not observe it.
//
// A peer whose database was replaced (apoidea repair) pulls its records from the copies of all
// neighbors before it replicates anything: range sync would delete them there.
//
// Receivers merge records: the same records may arrive twice, from several peers, in any order, and
// outdated. So the order and the senders of messages do not matter, and at every moment each record
// is held by some peer that will push it to its owner.
//
// Records arrive one after the other, and a peer that got a new arc must not act on missing
// records: a host that has not arrived yet may be leased to a worker. A [Settler] queries the
// neighbors whether they hold anything of the arc that they have not pushed. Until all have
// answered no, the peer grants nothing in it.
//
// Both are plain state machines: no goroutine, no clock but the time given, no network. They are
// driven by the node, and by the simulator.
//
// # Which records
//
// Several state machines store records by ring position: crawl/owner hosts, crawl/job jobs, dedup
// bodies, crawl/domain domains, node/services/subnets subnets. Each merges incoming records: a
// union of URLs, outcomes and outboxes, counters that only grow, the smaller content record, the
// later delegation.
//
// Each writes through a store that also records the batch for the replicas. A write is acknowledged
// when the batch is on disk here and at every follower in sync (*level*), that is at the next two
// peers. A follower stores the records of each source separately. It stores one record of a URL
// (ondisk.Copied), without its place in the queue: after a takeover, URLs of one depth are crawled
// in another order. A new or returning follower is synchronized by range sync: digests of small
// ranges of keys, the records of those ranges that differ, then the log from there on. Each
// follower gets entries at most five times a second, but at once while records move: every message
// costs it a disk sync and both ends some wake-ups, and batched entries share these.
//
// # What keeps one worker at a host meanwhile
//
//   - An arc that grows by a death is served after a TTL, so the leases of the dead peer have
//     expired (dht). An arc that shrinks is not served from the same moment on.
//   - A peer grants nothing in a new arc before it has merged its own copies and all neighbors have
//     answered that they hold nothing of it any more. A host that it does not have yet is rejected
//     meanwhile, not revoked, so workers keep their leases up to their own deadline.
//   - A host that is handed over by a live peer brings its lease along, under the same epoch.
//   - A peer whose arc is served by another (it was paused, or presumed dead) has its batches
//     rejected by that peer, and acknowledges nothing until the conflict is resolved.
//
// [storage/replica]: https://pkg.go.dev/github.com/apoidea/apoidea/storage/replica
package handoff
