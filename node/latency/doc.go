// Package latency puts distances between processes of one machine, so that a cluster on loopback
// behaves as peers and sites of a wide network do.
//
// Its words: a *plan* is a matrix of round trips and who stands at which of its rows; a *line* is
// one connection with a distance in it; a *stand* is a loopback address that tells the row of
// whoever is behind it.
//
// # How distances are made
//
// The side that dials makes the whole delay: it knows both rows, and the other side, such as the
// server of a site, need not know of any of it. Connecting takes one round trip, also where it is
// refused. After that, what this side writes arrives half a round trip later, and what the other
// side sends is read half a round trip later. So a probe, a fetch and a message between peers take
// as long as they would. A line keeps the order of what it carries and delays each byte by the same
// time, however much is under way.
//
// Only connections are delayed. Neither loss nor bandwidth is emulated, peers speak TCP and not
// QUIC, and DNS answers at once. A busy machine adds up to a millisecond or so to a round trip.
//
// # Who stands where
//
// Peers take the first rows of the matrix, as many as the plan says, and sites the rest. Peer i
// (from 0) is at row i and listens at 127.0.2.(i+1), from which others know its row.
//
// A named site that resolves to 127.0.0.1 is at the row that a hash of its name draws (FNV-1a of 64
// bits, without the port, modulo the number of rows for sites); so names served by one process are
// sites of their own. Its name resolves to 127.(128+row/256).(row%256).1, which is dialled as
// 127.0.0.1: so whatever remembers sites by address ranges takes two rows for two places. Any other
// loopback address is a site by the hash of its text. Addresses outside 127.0.0.0/8 are not
// delayed.
package latency
