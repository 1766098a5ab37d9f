// Package resolve is a caching DNS resolver for a crawler, which looks up very many names, each of
// them seldom, and should not repeat a query within minutes.
//
// Terms: an *answer* is the result for a name, positive or negative, with its expiry; a *flight* is
// one query under way, shared by all lookups of the same name.
//
// An IP literal is its own answer. The name localhost and all names beneath it resolve to 127.0.0.1
// without a query (RFC 6761, section 6.3). The hosts file comes next and is read again when it
// changes. Only then is a server queried, for A and AAAA concurrently, over UDP, and over TCP if
// the answer was truncated; if a server fails the next one is queried. A name without a dot is
// looked up in the search domains of the system first; every other name is absolute.
//
// Answers are cached for their TTL between limits, the absence of a name for the time in its zone's
// SOA (RFC 2308) once two consecutive answers reported it, a failure for a few seconds, so that a
// dead zone costs one query and not one a URL. The cache is a bounded LRU.
//
// A Resolver is safe for concurrent use and has no goroutine of its own: a flight ends with the
// lookups that wait for it.
package resolve
