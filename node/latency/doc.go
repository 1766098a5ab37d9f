// Package latency puts distances between processes of one machine, so that a cluster on loopback behaves as peers and sites of a wide network do.
//
// Its words: a *plan* is a matrix of round trips and who stands at which of its rows; a *line* is one connection with a distance in it; a *stand* is a
// loopback address that tells the row of whoever is behind it.
//
// The whole delay is made at the side that dials: it knows both rows, and the other side need not know of any of it. Connecting takes one round
// trip, also where it is refused. After that, what is written arrives half a round trip later and what the other side sends is read half a round
// trip later, so that a request and its answer take a round trip and the time that the server takes. A line keeps the order of what it carries and delays each
// byte by the same time, however much is on its way: it is a queue of what is under way, and neither the bandwidth nor the number of writes changes the delay.
//
// # Who stands where
//
// Peers take the first rows of the matrix, as many as the plan says, and sites the rest. Peer i (from 0) is at row i and listens at 127.0.2.(i+1), from which
// others know its row. A site that is named and resolves to 127.0.0.1 is at the row that a hash of its name draws (FNV-1a of 64 bits, without the port,
// modulo the number of rows for sites); so names served by one process are sites of their own. Such a name is resolved to 127.(128+row/256).(row%256).1,
// which is dialled as 127.0.0.1: what remembers sites by address ranges takes two rows for two places. Any other loopback address is a site by the hash of
// its text. Addresses outside 127.0.0.0/8 are not delayed.
package latency
