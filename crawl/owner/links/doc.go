// Package links takes links in and sends them out.
//
//   - [Intake] takes those to hosts of this peer into their sets of URLs; the smallest depth wins,
//     in whatever order they arrive.
//   - [Emitter] sends the links of a page on their way, as far as its host may bring further ones.
//   - [Outgoing] keeps those for other owners on disk with the page that they stand on, until they
//     are acknowledged.
//
// It promises that no link is lost by a crash: it is in its set, or in the outbox that is written
// in one batch with the outcome of its page. Not safe for concurrent use.
package links
