// Package latency emulates network latency between processes of one machine, so that a cluster on
// loopback behaves like peers and sites of a wide-area network.
//
// Terms: a *plan* is a matrix of round trip times with the rows of peers and sites; a *line* is a
// connection with latency; a *stand* is a loopback address that encodes a row.
//
// # Emulation
//
// The dialing side adds the whole delay, because it knows both rows; the other side, such as the
// server of a site, needs no support. A connect takes one round trip, also if refused. After that,
// each direction is delayed by half a round trip. So probes, fetches and messages take as long as
// on a real network. A line preserves order and delays each byte equally, independent of load.
//
// Only connections are delayed. Loss and bandwidth are not emulated, peers use TCP and not QUIC,
// and DNS has no delay. A busy machine adds about a millisecond to a round trip.
//
// # Rows
//
// Peers have the first rows of the matrix, as many as the plan sets, and sites the rest. Peer i
// (from 0) is at row i and listens at 127.0.2.(i+1), which shows its row to others.
//
// A named site that resolves to 127.0.0.1 has a row by the hash of its name (64-bit FNV-1a, without
// the port, modulo the number of rows for sites), so names served by one process are separate
// sites. Its name resolves to 127.(128+row/256).(row%256).1, which is dialed as 127.0.0.1; a cache
// of sites by address range thus separates the rows. Other loopback addresses are sites by the hash
// of their text. Addresses outside 127.0.0.0/8 are not delayed.
package latency
