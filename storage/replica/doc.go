// Package replica replicates one peer's records to other peers: log shipping, with range sync for
// followers that lack the beginning of the log.
//
// Terms:
//
//   - source: the peer that owns the records. follower: a peer that keeps a copy. copy: a
//     follower's replica of one source, stored apart from its own records and from other copies, so
//     that histories never mix on disk; merging is defined by the kind of record.
//   - entry: the changes of one batch, numbered in the order of application. A follower applies an
//     entry atomically.
//   - level: a follower that has every record of the source, as of the last entry that it
//     acknowledged.
//   - stream: an uninterrupted sequence of messages from a source to a follower. After an
//     interruption the next one begins with range sync.
//
// Range sync iterates over the source's records in key order: it sends digests of ranges of some
// ten kilobytes, the follower answers which differ from its copy, and gets the records of those.
// Concurrent writes follow from the log: replaying entries over a newer state is idempotent, as an
// entry sets and deletes absolute values in order. So writers never stop, syncing a similar copy is
// cheap, and an interruption loses only the position.
//
// [Source] and [Copies] are state machines without goroutines, clock or network. Copies reads and
// writes its [kv.Store]. The node drives them over libp2p, the simulator in virtual time.
//
// Guarantees: [Source.Durable] entries are on disk at every follower of the present set that is or
// was level. Memory is bounded: a follower that lags more than [Config.MaxLog] is synced again.
package replica
