// Package coordinates places hosts by network coordinates (Malet 2009; papers 3),
// without a request to a site that was not due anyway.
//
// Its words: a [Coordinate] is a place in a space of a few dimensions with a height, in
// milliseconds. *Peers* have coordinates from the round trips of gossip, stamped in user space, so
// that a busy peer looks far away ([Gossip]). *Servers* have proxy coordinates from what downloads
// of their own pages took at the peers that made them, the *estimators* ([Servers]). A *cycle*
// estimates a batch of servers and then hands their remaining URLs to the peer nearest in the space
// ([Cycle] at the requester, [Estimator] at the others, [Queue] for what a peer is to fetch).
// [Strategy] does the same for a live node, where each estimator takes its turn under a lease of
// one URL, so that a host never has two workers.
//
// Everything here is a plain state machine: no goroutine, clock, disk or network, not safe for
// concurrent use, and the same seed gives the same run. The time comes in as an argument.
//
// # Why Vivaldi is written here
//
// The well-known library (hashicorp/serf/coordinate v0.10.2) departs from 3.1 where it matters to
// us. It moves the vector by the whole force and divides the height's part by the distance without
// heights, so an update overshoots by 1 + heights/distance; a web server's time to answer and a
// busy peer's delay are such heights. Ten peers in a plane of 150 ms, a server of 20 to 1,000 ms
// height, samples with 20 % noise: after 300 updates its median relative error was 6.4 to 8.5 %,
// with the formula of 3.1 it is 4.6 to 5.5 %. It also draws from the global random source, so that
// no seed repeats a run, and refuses samples over ten seconds.
//
// # Where peers and servers stand
//
// With --placement coordinates every peer keeps a network coordinate. Every ten seconds, ten times
// as often while it is new, it asks a random neighbour for its own (node/placing, service
// coordinates). The round trip is stamped in the process and not in the kernel, so that a busy peer
// looks far away.
//
// A server's coordinate is moved by the time of downloads that were due anyway. Until its error is
// small enough, the owner leases a host for one URL at a time, to each candidate in turn: so a host
// has one worker at any moment, and a site is asked for nothing beyond the crawl. With few
// estimators the paper's error falls before the place is right. So we also hold a coordinate back
// while fewer than six candidates have had a turn, and while another candidate is known to be
// clearly quicker than the one that it points to.
//
// When a page takes its worker much longer than usual, each other candidate fetches one URL. If the
// server is slow for them too, it is asked less often (the lease says by how much), else the host
// goes elsewhere.
//
// --coordinates-mode chooses among the modes of the thesis. Its three sub-queues are in the
// experiments only: a live worker serves its hosts in the order in which politeness lets it,
// estimates among them.
package coordinates
