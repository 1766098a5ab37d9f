// Package seed is the way into a ring by name: an authoritative name server that tells newcomers of
// a few peers that answer, as Bitcoin's seeders do.
//
// Its words:
//
//   - visit: a fresh connection to a peer, as a newcomer's would be; see p2p.Net.Visit.
//   - [Book]: every peer heard of, and how reliable each was, as a plain state machine without
//     clock, network or disk. It is bounded; the worst is forgotten first.
//   - [Pool]: those that may be given, by network; what an answer names is drawn from it.
//   - zone: the name that this server answers for. The peers are TXT records of _dnsaddr below it.
//
// A [Seed] wires these: a crawler that visits peers and goes on to whom they name, and so comes
// round the ring; a name server over UDP and TCP; a file of the book, which is written as a whole.
// It is no member of the ring, owns nothing, listens to no peer, and draws a new name at each
// start.
package seed
