// Package placement decides which leaf peer crawls a host.
//
// Its words: a *candidate* is a peer that may crawl a host: the owner itself or one of its leaf
// set. A *measurement* is what a candidate found of the way to a site, at present the round trip of
// a TCP connect. A *range* is the part of the address space that a site lies in, /24 or /48: sites
// of one range share what was measured.
//
// A [Strategy] is a plain state machine: it is shown a [View] of what is known and answers with
// whom to ask next, or with its choice. Who asks (the node over the network, an experiment in
// virtual time) and how often is not its business, and it has no goroutine, clock or disk. Those of
// this package know nothing beyond the view; an [Observer] learns from what downloads took.
//
// # Load and calibration
//
// A worker tells every owner, with each heartbeat and each probe, how many URLs it holds and how
// many it would hold. From nine tenths on it is no candidate (crawl/placement/load.go), whatever
// the strategy. Then each owner takes hosts from it one after another, at most one in two seconds,
// as long as somebody else has room: first the host whose measurements vary least between those
// that made them (crawl/owner/leases/relieve.go; papers 2.4). The worker
// finishes the window that it has.
//
// A small host is placed by what is known without measuring it. Where that is unsure, it is placed
// anew once four times as many of its URLs wait, and at least eight.
//
// A host is placed anew when its fetches take more than twice as long as when its worker was new,
// three reports in a row. What was measured of it before does not count then:
//
//   - rtt has everybody measure again;
//   - ipmicra delegates the subnet anew;
//   - adaptive asks at least the worker that became slow;
//   - coordinates learns from each download anyhow;
//   - geo, random and owner measure nothing and come to the same worker again.
//
// apoidea host says why a host was placed anew.
package placement
