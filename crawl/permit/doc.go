// Package permit distributes one rate limit per address among all workers of a ring, so that many
// hosts behind one address together receive no more requests than that limit, regardless of their
// workers (design, section 6). It also assigns the hosts of a registrable domain to one worker at a
// time, so that no two workers send requests there within a delay.
//
// Terms:
//
//   - prefix: the unit of a limit: an IPv4 address, or an IPv6 /64, since one machine has all
//     addresses of it. Its home is the /24 or /48 around it.
//   - permit: permission to send one request to an address of the prefix, until the end of its
//     chunk. An unused permit expires then.
//   - chunk: one minute by the granter's clock. In each, it grants a prefix at most its limit.
//   - turn: a time slice of some seconds in which one worker alone may send requests to the hosts
//     of a domain. It spaces them itself. The next worker's time slice begins after a delay.
//   - guest: a worker that is not a member of the ring, and so untrusted. Guests get at most half
//     of a limit at the start of a chunk, and more as it passes; other workers wait for a guest no
//     longer than the granter's own delay.
//   - [Granter]: the ring owner of the hash of the prefix's home, or of the domain. It stores
//     nothing on disk: its state ends with the chunk or the time slice.
//   - [Wallet]: the permit cache of one worker. It requests permits on demand and spends them.
//
// If a granter dies or is replaced, a second limit may be granted within the current chunk only,
// and a second time slice beside the current one. Without a reply of the granter, a worker
// continues at a [FallbackShare]th of the limit, and of the rate of the delay.
//
// Granter and Wallet are state machines that take the time as an argument: no goroutine, clock or
// network. Neither is safe for concurrent use.
package permit
