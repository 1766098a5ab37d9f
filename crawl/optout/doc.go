// Package optout implements opt-outs: what site operators exclude from crawling.
//
// Terms:
//
//   - rule: one exclusion: a host, a domain with everything below it, an address range, or URLs of
//     a host by a pattern.
//   - [List]: rules written by an operator or a site, one per line. A peer applies its lists as
//     owner and as worker of a host.
//   - subject: a host or domain that has opted out in the ring. Its owner stores that with its
//     record until it is withdrawn.
//   - proof: a token at a path of the site, or in a TXT record of its name, that authenticates the
//     site. It is derived from the subject and the action, so every peer can verify the claim of
//     another one, and no peer has to store tokens.
//
// Lists are immutable and safe for concurrent use.
//
// # Where an opt-out is stored
//
// A peer applies its own lists as the owner of a host (links are rejected, waiting URLs end as
// opted_out) and as its worker (it opens no connections, sends no requests and no probes).
//
// The opt-out of a host is stored in its record, with a version, and is handed off with it. The
// opt-out of a domain is stored at the owner of the registrable domain, which notifies the owners
// of all hosts that it admitted; the owner of any other host receives it with the admission reply.
//
// The token is derived from the subject and the action, so no peer stores tokens. The peer that
// stores the opt-out checks the site itself: the claim of another peer is not enough, except in the
// lab profile. A peer announces hosts and domains of its lists to the ring in the same way, but not
// ranges and patterns, which have no owner.
package optout
