// Package frontier decides which host may be sent a request next, and when.
//
// Terms:
//
//   - host queue: the waiting URLs of one host, in order of arrival.
//   - due: the not-before time of a host.
//   - visit: from Next to Done or Free. A host has one visit at a time, so it never gets two
//     concurrent requests of this peer.
//   - delay: the politeness delay after a request: the largest of the floor, the Crawl-delay of
//     robots.txt (up to a limit), and a factor times the duration of the last request, so that a
//     busy and therefore slow site gets fewer requests.
//   - group: the registrable domain of a host. Groups with due hosts are served round-robin, as one
//     may have thousands of hosts. A group may have a delay of its own.
//   - hang: a request that timed out without an answer.
//   - prompt, slow, unknown: a host whose last visit was over within a second, one that took longer
//     or was not answered, and one without a visit so far. Slow hosts occupy fetchers: they have a
//     quarter of them while others wait, and so has a group, and an address, with its hosts that
//     are not prompt. Prompt ones may use all, however many are of one domain or at one address.
//   - address: the IP behind a host, if known. Hosts behind one address share a limit of concurrent
//     requests and a gap between them, because thousands of names may be one machine.
//
// A [Frontier] is a plain data structure: no goroutine, no lock, no clock. Time is an argument and
// need not be real. Each operation costs at most O(log hosts).
package frontier
