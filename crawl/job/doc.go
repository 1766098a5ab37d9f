// Package job is what a crawl was asked to do: the spec of a job, which URLs it admits, and the
// record kept at the job's owner.
//
// Its words:
//
//   - spec: what a poster asked for. It never changes, so that every peer may keep a copy for as
//     long as it likes.
//   - scope: the hosts that a job may visit, as globs; without any, the hosts of its seeds and
//     those that seeds redirect to. Seeds themselves are always fetched.
//   - filters: patterns of URLs that links must match to be followed, and of those that are not
//     fetched; a path as in robots.txt, with a host if wanted, or a regular expression.
//   - state: running, paused, canceled or done. With its version, which grows with each change, it
//     is the job's standing; two of them merge.
//   - job key: an Ed25519 key whose ID is the poster of a job. It signs the spec, and each standing
//     after the first: nobody else can end the job. Where a spec is not signed, anybody can.
//   - budget: how many pages and bytes all peers together may fetch. A peer draws a part of it from
//     the job's owner before it spends.
//   - account: what one peer has drawn, used for good and given back, as totals; so a request may
//     be lost or arrive twice.
//
// The [Registry] is a plain state machine over a [kv.Store]: no goroutine, no clock, no lock.
// Whoever drives it waits, by the wait function that each change returns, until the change is on
// disk before it lets the answer go; then a crash may lose budget but never spends it twice.
//
// Records move between owners, and come back from copies, as raw keys and values:
// [Registry.Export], [Registry.Import], [Registry.Remove]. Importing is a union (design, section 4,
// invariant 4): what a merge says of a budget follows from the accounts alone, so it holds as long
// as the accounts of all acknowledged draws are among what is merged.
package job
