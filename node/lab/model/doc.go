// Package model is a bounded model checker for a few peers: it explores every order of messages,
// losses, crashes, restarts, suspensions and ring changes, up to a depth, from the initial states
// that its tests name. After each step it checks the invariants of the design (section 4): at most
// one worker of a host, no loss of acknowledged data, consistent counters; and at the end of each
// trace, once the faults are over, that all records reach their owner.
//
// It runs the code of the node: the owner of hosts ([crawl/owner]), the sessions of workers
// ([crawl/worker/session]), replication ([storage/replica]) and handoff ([node/services/handoff]),
// with the rules for releasing answers. Simulated are the disk, the network, the rest of a worker,
// and the ring, reduced to each peer's view of live peers, with the serving rules of package dht.
//
// A world is plain data, so a step runs on a copy of it, and traces that reach the same world are
// followed once.
//
// Tests also check that the model can fail: they remove guards one by one, and each time it must
// find a trace that violates an invariant.
//
// [crawl/owner]: https://pkg.go.dev/github.com/apoidea/apoidea/crawl/owner
// [crawl/worker/session]: https://pkg.go.dev/github.com/apoidea/apoidea/crawl/worker/session
// [storage/replica]: https://pkg.go.dev/github.com/apoidea/apoidea/storage/replica
// [node/services/handoff]: https://pkg.go.dev/github.com/apoidea/apoidea/node/services/handoff
package model
