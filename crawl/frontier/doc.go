// Package frontier says which host may be asked next, and when.
//
// Its words:
//
//   - host queue: the URLs of one host that wait here, in the order in which they came.
//   - due: the time before which a host is left alone.
//   - visit: from Next to Done or Free. A host has one visit at a time, so it never sees two
//     requests of this peer at once.
//   - delay: the politeness owed after a request: the largest of the floor, what robots.txt asks
//     (up to a cap), and a factor times the time the last request took, so that a site that is slow
//     because it is busy gets rest.
//   - group: the registrable domain of a host. Of the hosts that may be asked the groups have
//     turns, as one may have thousands of hosts. It may owe a delay of its own, and rests
//     meanwhile.
//   - hang: a request of which nothing came.
//   - prompt, slow, unknown: a host whose last visit was over within a second, one that took longer
//     or was not answered, and one that was not asked yet. Slow hosts hold fetchers: they have a
//     quarter of them while others wait, and so has a group, and an address, with its hosts that
//     are not prompt. Prompt ones have all, however many are of one domain or at one address.
//   - address: the IP behind a host, where known. Hosts behind one address share a bound on
//     requests at once and a gap between them, because thousands of names may be one machine.
//
// A [Frontier] is a plain data structure: no goroutine, no lock, no clock. Time comes in as an
// argument and need not be real. Each operation costs at most O(log hosts).
package frontier
