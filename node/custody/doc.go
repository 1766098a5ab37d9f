// Package custody moves records to whoever answers for them: when peers join, leave, die or come back, when rings merge, after a restart.
//
// One mechanism serves all of these. A peer holds records of its own, and copies of the records of its predecessors ([storage/replica]). Whenever its
// view of the ring changes, a [Keeper] walks over both:
//
//   - own records at positions that another peer answers for are pushed to that peer and then removed here;
//   - records in the copy of a peer that does not answer for them any more are taken over, that is merged into this peer's own, if this peer answers for
//     them, else pushed to the peer that does; then they leave the copy.
//
// Whoever receives records merges them: the same records may come twice, from several peers, in any order, and stale. What decides is therefore never who
// sent what when. A push is acknowledged when it is on disk at the receiver and its replicas, and only then removed at the sender, so at every
// moment each record is kept somewhere that will push it to where it belongs.
//
// Because records arrive one after the other, a peer that got a new arc must not act on what it lacks: a host that is not there yet may be leased
// to a worker. A [Settler] asks the neighbours whether they hold anything of the arc that they have not pushed; until all have said no, the peer grants nothing
// in it.
//
// Both are plain state machines: no goroutine, no clock but the time given, no network. The node drives them, and so does the simulator.
//
// # Who keeps what, and how it moves
//
// Four state machines keep records by ring position: crawl/owner hosts, crawl/job jobs, dedup
// bodies, node/subnets subnets. Each writes through a store that also notes the batch for the
// replicas (shipped, in node/replication.go); an answer leaves when the batch is on the disk here
// and at every *level* follower, that is at the next two peers. A follower keeps the records of
// each source apart. Of a URL it keeps one record (owner.Copied), and not its place among those
// that wait: who takes over from a copy crawls those of one depth in another order. One that comes
// new, or back, is made level by range sync: digests of small ranges of keys, the records of those
// that differ, then the log from there on. Entries go out at most five times a second to each
// follower, but at once when records move: every message costs it a sync of its disk and both ends
// some wake-ups, and what waits shares them.
//
// Whenever its view of the ring changes, a peer walks over its own records and over the copies it
// keeps (node/custody). Own records of another's arc are pushed to their owner and removed here
// when that owner, and its replicas, have them on disk. Records in the copy of a peer that does
// not answer for them any more are merged into this peer's own if it answers for them, else
// pushed, with word of how long ago the source left or died: its leases run out a TTL after that,
// and a newcomer did not see it. That is all there is to join, leave, death, return and heal,
// since each of the state machines merges what comes: union of URLs, outcomes and outboxes,
// monotone accounts, the smaller content record, the later delegation. What decides is never who
// sent what when.
//
// What keeps one worker at a host meanwhile:
//
//   - an arc that grows by a death is served after a TTL, so the leases of the dead are over
//     (dht); an arc that shrinks is not served from the same moment on;
//   - a peer grants nothing in a new arc before it has merged its own copies and all neighbours
//     have said that they hold nothing of it any more (the *settler*); a host that it does not
//     know yet is refused meanwhile, not revoked, so workers keep their leases up to their own
//     deadline;
//   - a host that is handed over by a living peer brings its lease along, under the same epoch;
//   - a peer whose arc another serves (it was paused, or taken for dead) has its batches refused
//     by that peer, and acknowledges nothing until they agree.
//
// [storage/replica]: https://pkg.go.dev/github.com/apoidea/apoidea/storage/replica
package custody
