// Package coordinates places hosts by network coordinates (Malet 2009; papers 3), without
// additional requests to sites.
//
// Terms: a [Coordinate] is a position in a space of a few dimensions with a height, in
// milliseconds. *Peers* have coordinates from the round trips of gossip, measured in user space, so
// that a busy peer appears far away ([Gossip]). *Servers* have proxy coordinates from the duration
// of downloads at peers, the *estimators* ([Servers]). [Strategy] assigns hosts to the peer nearest
// in the space. Estimators alternate under leases of one URL, so that a host never has two workers.
// The thesis' cycle, which estimates a batch of servers and then assigns their remaining URLs, is
// in node/lab/experiment/coordinates.
//
// Everything here is a plain state machine: no goroutine, clock, disk or network, not safe for
// concurrent use, and deterministic for a seed. The time is an argument.
//
// # Why Vivaldi is implemented here
//
// The well-known library (hashicorp/serf/coordinate v0.10.2) differs from 3.1 in relevant points.
// It moves the vector by the whole force and divides the height's part by the distance without
// heights, so an update overshoots by 1 + heights/distance; a web server's response time and a busy
// peer's delay are such heights. Ten peers in a plane of 150 ms, a server of 20 to 1,000 ms height,
// samples with 20 % noise: after 300 updates its median relative error was 6.4 to 8.5 %, with the
// formula of 3.1 it is 4.6 to 5.5 %. It also draws from the global random source, so that runs are
// not reproducible, and rejects samples over ten seconds.
//
// # Peer and server coordinates
//
// With --placement coordinates every peer has a network coordinate. Every second it requests the
// coordinate of a random neighbor (node/services/placer, service coordinates). The round trip is
// measured in the process and not in the kernel, so that a busy peer appears far away.
//
// A server's coordinate is moved by the duration of downloads that were due anyway. Until its error
// is small enough, the owner leases a host for one URL at a time, to each candidate in turn: so a
// host has one worker at any moment, and a site gets no requests beyond the crawl. With few
// estimators the paper's error decreases before the position is right. So a coordinate is also not
// used while fewer than six candidates have had a turn, and while another candidate is known to be
// clearly faster than the nearest one.
//
// When a page takes its worker much longer than usual, each other candidate fetches one URL. If the
// server is slow for them too, its delay is increased (by a factor in the lease), else the host
// goes to another worker.
//
// The thesis' modes and its three sub-queues are in the experiments only: a live worker serves its
// hosts in the order that politeness permits, estimates among them.
package coordinates
