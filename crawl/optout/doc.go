// Package optout is what those who run sites wish not to be crawled.
//
// Its words:
//
//   - rule: one wish: a host, a domain with everything below it, a range of addresses, or URLs of a
//     host by a pattern.
//   - [List]: rules as an operator or a site writes them, one a line. Lists of a peer hold wherever
//     that peer is a host's owner or its worker.
//   - subject: a host or domain that has opted out in the ring itself. Its owner on the ring keeps
//     that with its record, until it is withdrawn.
//   - proof: what shows that whoever asks runs the site: a token at a path of the site, or in a TXT
//     record of its name. It follows from the subject and what is asked for, so that every peer can
//     check for itself what another one claims, and no peer has to remember what it handed out.
//
// Lists never change once made and are safe for concurrent use.
//
// # Who keeps an opt-out
//
// A peer's own lists hold wherever it is a host's owner (links are turned away, what waits ends as
// opted_out) or its worker (nothing is dialled, asked or probed).
//
// The wish of a host is kept in its record, with a version, and moves with the record. The wish of
// a domain is kept at the owner of the registrable domain, which tells the owners of all hosts that
// it admitted; the owner of any other host hears of it when it asks for admission.
//
// The line that a site shows follows from the subject and the action, so no peer keeps tokens. The
// peer that keeps the wish looks at the site itself: the word of another peer is not enough, except
// in the lab profile. A peer tells the ring of hosts and domains on its lists in the same way; of
// ranges and patterns it does not, as they have no owner.
package optout
