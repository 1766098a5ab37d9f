// Package placement decides which leaf peer crawls a host.
//
// Terms: a *candidate* is a peer that may crawl a host: the owner itself or one of its leaf set. A
// *measurement* is a candidate's result for the path to a site, at present the round trip of a TCP
// connect. A *range* is the part of the address space that a site is in, /24 or /48: sites of one
// range share measurements.
//
// A [Strategy] is a plain state machine: its input is a [View] of all known data, its output the
// peers that should measure next, or its choice. Its caller makes the probes (the node over the
// network, an experiment in virtual time) and determines their number; a strategy has no goroutine,
// clock or disk. Those of this package use the view only; an [Observer] learns from download times.
//
// # Load and calibration
//
// A worker reports to every owner, with each heartbeat and each probe, how many URLs it holds and
// how many it accepts. From nine tenths on it is not a candidate (crawl/placement/placement.go),
// whatever the strategy. Then each owner moves hosts away from it one after another, at most one in
// two seconds, as long as another worker has capacity: first the host whose measurements vary least
// between candidates (crawl/owner/leases/relieve.go; papers 2.4). The worker finishes its current
// window.
//
// A small host is placed without measuring it. If that choice is unsure, it is placed again once
// four times as many of its URLs wait, and at least eight.
//
// A host is placed again when its fetches take more than twice as long as with a new worker, three
// reports in a row. Its earlier measurements do not count then:
//
//   - rtt makes all candidates measure again;
//   - ipmicra delegates the subnet again;
//   - adaptive makes at least the slow worker measure again;
//   - coordinates learns from each download anyway;
//   - geo, random and owner measure nothing and choose the same worker again.
//
// apoidea host shows why a host was placed again.
package placement
