// Package job implements crawl jobs: the spec of a job, the URLs that it admits, and the record
// stored at the job's owner.
//
// Terms:
//
//   - spec: the request of a poster. It never changes, so every peer may cache it without limit.
//   - scope: the hosts that a job may visit, as globs; without globs, the hosts of its seeds and
//     those that seeds redirect to. Seeds themselves are always fetched.
//   - filters: URL patterns that links must match to be followed, and patterns that are not
//     fetched: a path as in robots.txt, optionally with a host, or a regular expression.
//   - state: running, paused, canceled or done. With its version, which grows with each change, it
//     is the job's standing; two standings merge.
//   - job key: an Ed25519 key whose ID is the poster of a job. It signs the spec, and each standing
//     after the first, so only its holder can end the job. A job without a signature can be ended
//     by any peer.
//   - budget: the pages and bytes that all peers together may fetch. A peer draws a part of it from
//     the job's owner before it spends.
//   - account: the drawn, used and returned tokens of one peer, as totals; so a request may be lost
//     or repeated.
//
// The [Registry] is a state machine over a [kv.Store], without goroutine, clock or lock. Each
// change returns a wait function: the caller must not send the reply before it returns. Then a
// crash may lose budget but never spends it twice. Only a peer that left the ring, and comes back
// after its tokens were reclaimed, may exceed it.
//
// Records move between owners, and are restored from replicas, as raw keys and values:
// [Registry.Export], [Registry.Import], [Registry.Remove]. Importing is a union (design, section 4,
// invariant 4): the merged budget follows from the accounts alone, so it is correct as long as the
// accounts of all acknowledged draws are among the merged records.
package job
