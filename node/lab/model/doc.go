// Package model explores what a few peers can do to each other: every order of messages, of losses,
// crashes, restarts, pauses and changes of the ring, up to a depth, from the beginnings that its
// tests name. After each step it holds the invariants of the design (section 4): at most one worker
// of a host, nothing lost that was acknowledged, books that add up; and at the end of each row of
// steps, once the faults are over, that everything comes to rest with its owner.
//
// What is explored is the code that the node runs: the owner of hosts ([crawl/owner]), the sessions
// of workers ([crawl/worker/session]), replication ([storage/replica]) and custody
// ([node/custody]), with the rules by which the node lets answers go. Made up are the disk, the
// network, what a worker does beside its sessions, and the ring, reduced to who believes whom
// alive, with the rules of serving of package dht.
//
// A world is plain data, so a step is tried on a copy of it, and two rows of steps that come to the
// same world are followed once.
//
// That the model is able to fail is tested as well: guards are taken out one by one, and each time
// it has to find the row of steps that goes wrong.
//
// [crawl/owner]: https://pkg.go.dev/github.com/apoidea/apoidea/crawl/owner
// [crawl/worker/session]: https://pkg.go.dev/github.com/apoidea/apoidea/crawl/worker/session
// [storage/replica]: https://pkg.go.dev/github.com/apoidea/apoidea/storage/replica
// [node/custody]: https://pkg.go.dev/github.com/apoidea/apoidea/node/custody
package model
