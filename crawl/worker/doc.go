// Package worker implements the worker's side of a crawl: it holds leases on hosts, fetches the
// URLs that their owners grant, archives pages, and reports outcomes.
//
// Terms:
//
//   - session, lease, window, report: the exchange of messages with owners, see package session.
//   - host, visit, origin: which request is due and when, see package visits. Both packages decide;
//     this one acts.
//   - page, claim: the result of an exchange, and the query whether its body is already archived,
//     see package pages.
//
// # The life of a page
//
//	a visit begins -> robots.txt is present and allows it -> exchange (a permit is taken right before the request is written)
//	     (a body over fetch.FreeBody is read on when there is memory for it)
//	  -> list of pages waiting to be processed (Apoidea's Processing-Jobs) -> links extracted, body digested
//	  -> claim (batched) -> archived: new, or as a revisit -> links filtered -> report (batched)
//	  -> archive synced -> session with outcomes and links -> acknowledged; the bodies are confirmed to their content owners
//
// # Guarantees
//
// No request is written without a valid lease. Validity is checked by the lease clock, which counts
// suspend; running requests are canceled when the lease ends; a process that was stopped drops all
// its leases. No outcome is reported before the archive has synced the page. What was fetched and
// not reported is fetched again by the next worker, so nothing here needs to survive a crash.
// Memory is bounded by the number of leases and of URLs granted, by the bytes of bodies being
// received and of waiting pages, and by the number of outcomes retained for unresponsive owners.
//
// # When a host's owner changes
//
// A lease follows the host: when an owner answers that a host has moved, or does not answer while
// another peer is the presumed owner, lease and reports go to that peer. Only an answer that renews
// a lease prolongs it; until the new owner sends one, the window is fetched under the current
// deadline. An owner that does not recognize the lease ends it, but not the exchange under way.
//
// # What is archived
//
// Every answer becomes a response record. Bodies of 2xx answers are claimed by digest, except empty
// ones, which would all be duplicates of each other. A page that requests not to be indexed
// (noindex) is fetched and counted and its links followed, but it is not stored: an archive is an
// index of its content. Links marked nofollow are not followed. A redirect ends its exchange: its
// target is treated as a link. Cookies of a host are sent back to it until its lease ends; a
// redirect that sets a new cookie, or sets one and leads back, is not archived: its URL is
// requested once more with the cookie (visits/cookies.go).
//
// # Revisits
//
// A URL that was fetched before comes with a Revisit: its request is conditional, and status 304
// becomes a revisit record without a body. Links of a page with the same body, or with the same
// text and links, are archived and not reported again.
//
// A robots.txt that redirects to another host is requested there (RFC 9309, section 2.3.1.2), and
// applies to the host that redirects. It is the only request that may be made without a lease on
// its host, within the bounds of visits/across.go.
//
// # Concurrency
//
// Run owns every goroutine: the fetchers, those of package pages, two for each session, one that
// watches the lease clock. One mutex guards sessions and visits; it is held briefly and never
// during network or disk access.
package worker
