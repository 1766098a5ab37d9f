// Package coordinates places hosts by network coordinates (Malet 2009; papers.md section 3), without a request to a site that was not due anyway.
//
// Its words: a [Coordinate] is a place in a space of a few dimensions with a height, in milliseconds. *Peers* have coordinates from the round trips of
// gossip, stamped in user space, so that a busy peer looks far away ([Gossip]). *Servers* have proxy coordinates from what downloads of their own pages took
// at the peers that made them, the *estimators* ([Servers]). A *cycle* estimates a batch of servers and then hands their remaining URLs to the peer nearest
// in the space ([Cycle] at the requester, [Estimator] at the others, [Queue] for what a peer is to fetch). [Strategy] does the same for a live node, where
// each estimator takes its turn under a lease of one URL, so that a host never has two workers.
//
// Everything here is a plain state machine: no goroutine, clock, disk or network, not safe for concurrent use, and the same seed gives the same run. The
// time comes in as an argument.
//
// # Why Vivaldi is written here
//
// The well-known library (hashicorp/serf/coordinate) departs from 3.1 where it matters to us. It divides the height's part of a force by the distance
// without heights, and moves the vector by the whole force beside it, so an update overshoots by 1 + height/distance. Between peers on a backbone
// heights are small; a web server's time to answer and a busy peer's delay are height, several times the distance, and the coordinates swing instead of
// settling. It also draws from the global random source, which no seed reaches, and refuses samples over ten seconds.
package coordinates
