// Package node is a peer: the one room that knows every other room, and the seams between them.
//
// The picture:
//
//	cmd/apoidea  ->  node  ->  crawl   dht   dedup   storage
//
// A newcomer reads in this order: config.go (what can be set), node.go (what a peer is made of),
// life.go (how it starts and ends), hosts (how state changes become durable, and how links travel),
// rpc (how a key finds its owner), placing (who crawls a host), crawling/content.go (how duplicates
// are found), jobs (what a crawl was asked for), view/walk.go (how the whole ring is counted),
// records and custody (how hosts change owners).
//
// The life of a URL: a worker reports an outcome and the links of its page to the owner of the
// page's host; the owner writes both in one batch; the outbox carries each link to the owner of its
// own host, which takes it into that host's URL set; from there it is granted, in a window, to the
// worker that the placement strategy chose.
//
// The life of a peer: New builds it and starts nothing. Run opens the ring, starts every part, and
// returns when all of them have ended: at the end of ctx, after Leave, or because one of them
// failed (a full disk, a store that cannot write). What was acknowledged to anybody is on disk by
// then. Nothing that a crash interrupts is lost but fetches under way.
package node
