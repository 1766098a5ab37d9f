// Package optout is what those who run sites wish not to be crawled.
//
// Its words:
//
//   - rule: one wish: a host, a domain with everything below it, a range of addresses, or URLs of a host by a pattern.
//   - [List]: rules as an operator or a site writes them, one a line. Lists of a peer hold wherever that peer is a host's owner or its worker.
//   - subject: a host or domain that has opted out in the ring itself. Its owner on the ring keeps that with its record, until it is withdrawn.
//   - proof: what shows that whoever asks runs the site: a token at a path of the site, or in a TXT record of its name. It follows from the subject and
//     what is asked for, so that every peer can check for itself what another one claims, and no peer has to remember what it handed out.
//
// Lists never change once made and are safe for concurrent use.
package optout
