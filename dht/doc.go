// Package dht keeps a peer in the ring and finds the owner of a key.
//
// Its words: the *leaf set* of a peer is its r nearest predecessors and r nearest successors (r =
// 8); the *owner* of a key is the first peer at or after it; a peer *serves* the arc (predecessor,
// itself] while its state is serving. A peer that has no answer is *suspect*, and *dead* after two
// failures and the word of a third peer.
//
// Its parts: Ring is the logic as a plain state machine (messages, ticks and results in; calls and
// events out), and DHT drives it, and look-ups (dht/lookup), over a Transport and a Membership. The
// Transport carries requests (dht/p2p over libp2p, dhttest in memory), the Membership is a Kademlia
// routing table.
//
// A Ring brings its inputs to parts with states of their own (parts.go), each of which knows only
// parts below it: hood (the leaf set and what each peer in it said), pace (when the next round is),
// serving (state and arc), exchange (what is said to others), introducer (who is only heard of),
// routes (the way to a key), seeker (the search for our own place), suspicion (who is dead),
// listener (what others say), attacher and roles (workers, by dht/workers), and rounds (what is
// done again and again).
//
// A peer that others cannot dial is a *worker*: it owns nothing and is *attached* to ring peers
// around its position, which reach it by the connections that it made.
//
// Its promises: a DHT is safe for concurrent use, New starts nothing, and when Run returns nothing
// is left running. Nothing survives a crash but what the caller stored of Snapshot.
package dht
