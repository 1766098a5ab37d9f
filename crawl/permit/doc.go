// Package permit shares one limit of requests to an address among all workers of a ring, so that
// many hosts behind one address are together no greater burden than that limit, whoever crawls them
// (design, section 6). It also has the workers take turns at the hosts of a registrable domain, so
// that none of them asks there within a delay of another.
//
// Its words:
//
//   - prefix: what shares a limit: an IPv4 address, or an IPv6 /64, of which one machine has all
//     addresses. Its home is the /24 or /48 around it.
//   - permit: leave to write one request to an address of the prefix, until the end of its chunk.
//     One that was not used by then is lost.
//   - chunk: one minute by the granter's clock. In each of them it grants a prefix no more than its
//     limit.
//   - turn: leave for one worker alone to make requests to the hosts of a domain, for some seconds.
//     It spaces them itself. The next worker has its turn when a delay has gone by since.
//   - guest: a worker that is no member of the ring, as anybody can be. Guests have half of a limit
//     when a chunk begins, and more as it goes by; nobody waits for one longer than the granter's
//     own delay.
//   - [Granter]: the ring owner of the hash of the prefix's home, or of the domain. It keeps
//     nothing on disk: what it forgets ends with the chunk, or the turn.
//   - [Wallet]: the side of one worker. It asks for permits as it needs them and spends them.
//
// A granter that dies, or another one in its place, may grant a second limit within the chunk in
// which that happened and not beyond it, and a second turn beside one that is under way. A worker
// whose granter does not answer goes on at a [FallbackShare]th of the limit, and of what the delay
// allows.
//
// Granter and Wallet are plain states that take the time as an argument: no goroutine, clock or
// network. Neither is safe for concurrent use.
package permit
