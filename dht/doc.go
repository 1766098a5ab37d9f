// Package dht maintains a peer's place in the ring and looks up the owner of a key.
//
// Terms: the *leaf set* of a peer is its r nearest predecessors and r nearest successors (r = 8);
// the *owner* of a key is the first peer at or after it; a peer *serves* the arc (predecessor,
// itself] while its state is Serving. A peer that does not answer is *suspect*, and *dead* after
// two failures unless a third peer can reach it.
//
// Ring is the protocol as a plain state machine (messages, ticks and results in; calls and events
// out). DHT drives it, and lookups (dht/lookup), over a Transport and a Membership. The Transport
// carries requests (dht/p2p over libp2p, dhtsim in memory); the Membership is a Kademlia routing
// table.
//
// A Ring is composed of parts (ring.go), each of which uses only those before it: neighborhood
// (leaf set and state of each neighbor), pace (time of the next round), serving (state and arc),
// exchange (own announcements), introducer (unconfirmed peers), routes (path to a key), seeker
// (search for the own position), suspicion (failure detection), listener (announcements of others),
// attacher and roles (workers, by dht/workers), and rounds (periodic tasks).
//
// A peer that others cannot dial is a *worker*: it owns nothing and is *attached* to ring peers
// around its position, which reach it over the connections that it opened.
//
// A DHT is safe for concurrent use. New starts no goroutine, and none is left when Run returns.
// Only what the caller stored of Snapshot survives a crash.
package dht
