// Package custody moves records to whoever answers for them: when peers join, leave, die or come
// back, when rings merge, after a restart. One mechanism serves all of these.
//
// # How records move
//
// A peer holds records of its own, and copies of the records of its predecessors
// ([storage/replica]). Whenever its view of the ring changes, a [Keeper] walks over both:
//
//   - Own records at positions that another peer answers for are pushed to that peer, and removed
//     here when they are on disk there and at its replicas, as it says. Until its copy here shows
//     them they are kept as another copy of it, which it cannot change (see [Kept]).
//   - The copy of a peer may hold records that the peer itself answers for no more. They are taken
//     over, that is merged into this peer's own, if this peer answers for them, else pushed to the
//     peer that does; then they leave the copy. A push of such records says how long ago the source
//     left or died: its leases run out a TTL after that, and a newcomer did not see it happen.
//
// Whoever receives records merges them: the same records may come twice, from several peers, in any
// order, and stale. So what decides is never who sent what when, and at every moment each record is
// kept somewhere that will push it to where it belongs.
//
// Records arrive one after the other, and a peer that got a new arc must not act on what it lacks:
// a host that is not there yet may be leased to a worker. A [Settler] asks the neighbours whether
// they hold anything of the arc that they have not pushed. Until all have said no, the peer grants
// nothing in it.
//
// Both are plain state machines: no goroutine, no clock but the time given, no network. The node
// drives them, and so does the simulator.
//
// # Who keeps what
//
// Several state machines keep records by ring position: crawl/owner hosts, crawl/job jobs, dedup
// bodies, crawl/domain domains, node/subnets subnets. Each of them merges what comes: a union of
// URLs, outcomes and outboxes, accounts that only grow, the smaller content record, the later
// delegation.
//
// Each writes through a store that also notes the batch for the replicas. An answer leaves when the
// batch is on disk here and at every *level* follower, that is at the next two peers. A follower
// keeps the records of each source apart. It keeps one record of a URL (ondisk.Copied), and not its
// place among those that wait: whoever takes over from a copy crawls URLs of one depth in another
// order. A follower that is new or comes back is made level by range sync: digests of small ranges
// of keys, the records of those ranges that differ, then the log from there on. Each follower gets
// entries at most five times a second, but at once while records move: every message costs it a
// sync of its disk and both ends some wake-ups, and entries that wait share these.
//
// # What keeps one worker at a host meanwhile
//
//   - An arc that grows by a death is served after a TTL, so the leases of the dead are over (dht).
//     An arc that shrinks is not served from the same moment on.
//   - A peer grants nothing in a new arc before it has merged its own copies and all neighbours
//     have said that they hold nothing of it any more. A host that it does not know yet is refused
//     meanwhile, not revoked, so workers keep their leases up to their own deadline.
//   - A host that is handed over by a living peer brings its lease along, under the same epoch.
//   - A peer whose arc another serves (it was paused, or taken for dead) has its batches refused by
//     that peer, and acknowledges nothing until they agree.
//
// [storage/replica]: https://pkg.go.dev/github.com/apoidea/apoidea/storage/replica
package custody
