// Package resolve turns the name of a host into addresses: a caching DNS resolver for a crawler,
// which asks for very many names, each of them seldom, and must not ask twice what it was told a
// minute ago.
//
// Words: an *answer* is what a name resolved to, good or bad, with the time until which it may be
// believed; a *flight* is one question on its way, shared by all that wait for the same name.
//
// An IP literal is its own answer. The name localhost and all names beneath it are 127.0.0.1
// without asking (RFC 6761, section 6.3). The hosts file comes next and is read again when it
// changes. Only then is a server asked, for A and AAAA at the same time, over UDP and over TCP
// where the answer was cut short; the next server is asked when one fails. A name without a dot is
// looked up in the search domains of the system first; every other name is absolute.
//
// Answers are kept for their TTL between bounds, the absence of a name for as long as its zone's
// SOA says (RFC 2308) once two answers in a row were so, a failure for a few seconds, so that a
// dead zone costs one question and not one a URL. The cache is a bounded LRU.
//
// A Resolver is safe for concurrent use and has no goroutine of its own: a flight lives no longer
// than the lookups that wait for it.
package resolve
