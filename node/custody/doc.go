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
// [storage/replica]: https://pkg.go.dev/github.com/apoidea/apoidea/storage/replica
package custody
