// Package replica keeps copies of one peer's records on other peers: log shipping, with range sync
// for whoever lacks the beginning of the log.
//
// Its words:
//
//   - source: the peer whose records are copied. follower: a peer that keeps a copy. copy: what a
//     follower keeps of one source, apart from its own records and from the copies of other
//     sources, so that two histories never mix on disk; what they come to together is for the
//     records' own merge to say.
//   - entry: the changes of one batch, numbered in the order in which the batches were applied. An
//     entry is whole at a follower or not there.
//   - level: a follower that has every record of the source, as of the last entry that it
//     acknowledged.
//   - stream: an unbroken row of messages from a source to a follower. When it breaks, the next one
//     begins with range sync.
//
// A source brings a follower level by walking over its own records in the order of keys: it sends
// the digests of ranges of some ten kilobytes, the follower says which differ from its copy, and
// gets the records of those. What was written meanwhile follows from the log: replaying entries
// over a newer state comes to the same, as an entry sets and deletes absolute values in order. So
// nothing has to stand still, a copy that is nearly the same costs little, and a break loses only
// the place.
//
// [Source] and [Copies] are plain: no goroutine, no clock but the time given to them, no network.
// Copies reads and writes its [kv.Store]. The node drives them over libp2p, the simulator in
// virtual time.
//
// What it promises: [Source.Durable] entries are on disk at every follower of the present set that
// is level or was. Memory is bounded: a follower that lags more than [Config.MaxLog] behind is made
// level anew.
package replica
