// Package p2p implements the network between peers. It is the only package that uses go-libp2p and
// go-libp2p-kad-dht.
//
// Terms:
//
//   - Net: one peer's presence on the network: a libp2p host (TCP and QUIC,
//     Noise, yamux), its connections, and the calls (dht/calls) on their streams.
//   - service: see dht/calls. Protocol ID: /apoidea/<network>/<service>/<version>.
//   - handshake: one that is pending; their number is limited by origin.
//   - Kad: the kad-dht routing table as membership of the ring.
//   - entry point: a peer through which another joins; see [Net.Bootstrap].
//
// [New] does not listen, [Net.Run] blocks, and when [Net.Close] has returned no goroutine of this
// package is left and no handler runs.
//
// # Behind a router
//
// A peer that cannot be dialed has the role worker: it attaches to a few members over connections
// that it opens. They offer it hosts and send all requests over those connections. It has no arc,
// keeps no replicas and is in no leaf set. The role depends on dial-backs of several peers
// (dht/p2p/reach.go), with hysteresis; --reachability fixes it. The number of workers of a member
// is limited.
//
// In the public profile (--nat-traversal) a peer also asks its router to forward the port (UPnP,
// NAT-PMP). A worker keeps a slot at two members that relay for it, so that other members can call
// it as well; a call over a relay waits four seconds for hole punching before it uses the relay
// (dht/p2p/reach.go). A member relays for at most 16 peers of its own network, while it has
// free connections, 256 KiB and two minutes per circuit: enough for requests, not for pages. Relays
// come from the routing table, so only ring members serve. The status command shows how a peer is
// reached.
package p2p
