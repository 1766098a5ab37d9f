// Package links receives and sends links.
//
//   - [Intake] adds links to hosts of this peer to their URL sets; while a URL waits, the smallest
//     depth wins. The links of a page are never forwarded again.
//   - [Emitter] forwards the links of a page, within the limit of new hosts for its host.
//   - [Outgoing] stores links for other owners on disk with their page, until they are
//     acknowledged.
//
// No link is lost by a crash: it is in its URL set, or in the outbox, which is written in one batch
// with the outcome of its page. Not safe for concurrent use.
package links
