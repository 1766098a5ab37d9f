// Package placement decides which leaf peer crawls a host.
//
// Its words: a *candidate* is a peer that may crawl a host: the owner itself or one of its leaf set. A *measurement* is what a candidate found of the
// way to a site, at present the round trip of a TCP connect. A *range* is the part of the address space that a site lies in, /24 or /48: sites of
// one range share what was measured.
//
// A [Strategy] is a plain state machine: it is shown a [View] of what is known and answers with whom to ask next, or with its choice. Who asks (the node
// over the network, an experiment in virtual time) and how often is not its business, and it has no goroutine, clock or disk. Those of this package know
// nothing beyond the view; an [Observer] learns from what downloads took.
package placement
