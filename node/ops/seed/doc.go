// Package seed is a DNS seed: an authoritative name server that returns a few responding peers to
// joining peers, as Bitcoin's DNS seeders do.
//
// Terms:
//
//   - visit: a new connection to a peer, as from a joining peer; see p2p.Net.Visit.
//   - [PeerSet]: all discovered peers and their reliability, a state machine without clock, network
//     or disk. Its size is limited; the least reliable peers are removed first.
//   - [Pool]: the peers that responses are drawn from, by network.
//   - zone: the DNS zone of this server. The peers are TXT records of _dnsaddr below it.
//
// A [Seed] consists of a crawler that visits peers and the peers that they announce, and so covers
// the ring; a name server over UDP and TCP; and a file of the set, replaced atomically. It is not
// a member of the ring, accepts no connections of peers, and has a new peer ID at each start.
package seed
