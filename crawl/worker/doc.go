// Package worker is the worker's side of a host: it holds leases, fetches what their owners grant,
// archives it, and reports.
//
// Its words:
//
//   - session, lease, window, report, dry: what is said to the owners, see package session.
//   - host, visit, origin: what is asked of whom and when, see package visits. Both say what to do;
//     here it is done.
//   - page, claim: what an exchange brought, and the question whether its body was met before, see
//     package pages.
//
// # The life of a page
//
//	a visit begins -> robots.txt known and admits it -> exchange (a permit is asked right before the request is written)
//	     (a body that memory has no room for goes to disk as it comes)
//	  -> list of pages waiting to be processed (beyond a bound on disk: Apoidea's Processing-Jobs) -> links extracted, body digested
//	  -> claim (batched) -> archived: new, or a revisit of what is known -> links filtered -> report (batched)
//	  -> archive synced -> session with outcomes and links -> acknowledged; the bodies are confirmed to their content owners
//
// # What is promised
//
// No request is written without a lease that holds: the permit is asked of the lease clock, which
// counts suspend; running requests are canceled when it ends; a process that was stopped drops all
// it held. No outcome is reported before the archive has synced what it speaks of. What was fetched
// and not reported is fetched again by whoever comes next, so nothing here needs to survive a
// crash. Memory is bounded by the number of leases and of URLs asked for, by the bytes of bodies on
// their way and of waiting pages, and by the number of outcomes kept for owners that do not answer.
//
// # When a host's owner changes
//
// A lease is a matter between the worker and the host, whoever owns it: when an owner says that a
// host has moved, or does not answer while another is believed to own it, lease and reports go to
// that other. Only an answer that renews a lease prolongs it; until the new owner gives one, the
// window is worked off under the deadline that holds. An owner that does not know of the lease ends
// it, but not the exchange under way.
//
// # What is archived and asked
//
// Every answer becomes a response record. Bodies of 2xx answers are asked for by digest, except
// empty ones, which would all be duplicates of each other. A page that asks not to be indexed
// (noindex) is fetched and counted and its links followed, but nothing of it is kept: an archive is
// an index of what it holds. Links marked nofollow are not followed. A redirect ends its exchange:
// its target is a link like any other. Cookies of a host are sent back to it until its lease ends;
// a redirect that sets a new one, or sets one and leads back, is not archived: its URL is requested
// once more with the cookie (visits/cookies.go).
//
// A robots.txt that redirects to another host is asked for there (RFC 9309, section 2.3.1.2), and
// holds for the host that leads there. It is the one request that may be made without the lease of
// the host it goes to, within the bounds that visits/across.go names.
//
// # Concurrency
//
// Run owns every goroutine: the fetchers, those of package pages, two for each owner spoken to, one
// that watches the lease clock. One mutex guards sessions and visits; it is held for moments and
// never over the network or the disk.
package worker
