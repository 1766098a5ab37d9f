// Package dht keeps a peer in the ring and finds the owner of a key.
//
// Its words: the *leaf set* of a peer is its r nearest predecessors and r nearest successors (r = 8); the *owner* of a key is
// the first peer at or after it; a peer *serves* the arc (predecessor, itself] while its state is serving. A peer that has no
// answer is *suspect*, and *dead* after two failures and the word of a third peer.
//
// Its parts: Ring is the logic as a plain state machine (messages, ticks and results in; calls and events out), lookup is one
// iterative search of an owner, and DHT drives both over a Transport and a Membership. The Transport carries requests
// (dht/p2p over libp2p, dhttest in memory), the Membership is a Kademlia routing table.
//
// A peer that others cannot dial is a *worker*: it owns nothing and is *attached* to ring peers around its position, which reach it by
// the connections that it made.
//
// Its promises: a DHT is safe for concurrent use, New starts nothing, and when Run returns nothing is left running. Nothing
// survives a crash but what the caller stored of Snapshot.
package dht
