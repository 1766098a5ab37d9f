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
//
// # How distances are made
//
// --latency FILE puts the round trips of a matrix between the peers of a cluster, and between
// peers and sites (node/latency). The side that dials makes the whole delay, since it knows both
// rows: a connect takes a round trip, and what is written, or comes back, arrives half a round
// trip later, in its order and however much is under way. So the servers of sites need not know of
// it, and a probe, a fetch and a message between peers all take as long as they would. Peer i
// listens at 127.0.2.i, from which others know its row. A site is at the row that a hash of its
// name draws and is seen at an address of that row (127.(128+row/256).(row%256).1), so that what
// goes by address ranges sees two places as two. Only connections are delayed: neither loss nor
// bandwidth is emulated, peers speak TCP and not QUIC, and DNS answers at once. What a busy
// machine adds to a round trip, up to a millisecond or so, is measured along.
package latency
