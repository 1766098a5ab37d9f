// Package node implements a peer: it connects all other packages.
//
// Layers:
//
//	cmd/apoidea  ->  node  ->  crawl   dht   dedup   storage
//
// Below node: services, which peers offer each other; ops, for operators; lab, the laboratory.
// Reading order: config.go, node.go (parts of a peer), life.go (start and shutdown); of services
// hosts (durability, delivery of links), rpc (routing to the owner of a key), placer (selection of
// workers), crawling/content.go (deduplication), jobs, records and handoff; ops/inspect/walk.go.
//
// The life of a URL: a worker reports an outcome and the links of its page to the owner of the
// page's host; the owner writes both in one batch; the outbox sends each link to the owner of its
// host, which adds it to that host's URL set; from there it is granted, in a window, to the worker
// that the placement strategy selected.
//
// The life of a peer: New creates it and starts nothing. Run joins the ring, starts every part, and
// returns when all of them have ended: at the end of ctx, after Leave, or because one failed (a
// full disk, a store that cannot write). Everything acknowledged is on disk by then. A crash loses
// only fetches in flight.
package node
