// Package p2p carries everything that peers say to each other. It is the only
// place that knows go-libp2p and go-libp2p-kad-dht.
//
// Its words:
//
//   - Net: one peer's presence on the network: a libp2p host (TCP and QUIC,
//     Noise, yamux), its connections, and what dht/calls sends over their streams.
//   - service: see dht/calls. Protocol ID: /apoidea/<network>/<service>/2.0.0.
//   - knock: a connection whose handshake has not ended; how many there may be is bounded by where
//     they come from.
//   - Kad: the kad-dht routing table as membership of the ring.
//   - entry point: a peer through which a newcomer joins; see [Net.Bootstrap].
//
// [New] listens nowhere, [Net.Run] blocks, and when [Net.Close] has returned no goroutine of this
// package is left and no handler runs.
//
// # Behind a router
//
// A peer that nobody can dial has the role worker: it attaches to a few members over connections
// of its own, they offer it hosts, and all that is asked of it comes back over those. It has no
// arc, keeps no replicas and stands in no leaf set. Which role fits is what several others found
// when they dialled it (dht/p2p/reach.go), with hysteresis; --reachability settles it by hand. How
// many workers a member takes is bounded.
//
// In the public profile (--nat-traversal) a peer also asks its router to forward the port (UPnP,
// NAT-PMP); a worker keeps a slot at two members that relay for it, so that those it is not
// attached to can call it as well, and a call over a relay waits four seconds for the hole to be
// punched before it makes do with the relay (dht/p2p/traversal.go). A member relays for 16 peers
// of its own network at most, while it has connections to spare, 256 KiB and two minutes a
// circuit: enough for questions, not for pages. Relays come out of the routing table, so none but
// members of the ring serve. status says how a peer is reached.
package p2p
