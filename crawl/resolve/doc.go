// Package resolve is a caching DNS resolver for a crawler, which looks up very many names, each of
// them seldom, and should not repeat a query within minutes.
//
// An IP literal is its own answer. The name localhost and all names beneath it resolve to 127.0.0.1
// without a query (RFC 6761, section 6.3). The hosts file comes next. Only then is a server
// queried, for A and AAAA concurrently, over UDP, and over TCP if the answer was truncated; if a
// server fails the next one is queried. A name without a dot is looked up in the search domains of
// the system first; every other name is absolute. Go's own resolver would reject names with a label
// that begins or ends with a hyphen, which sites have.
//
// Addresses are cached for 5 minutes, the absence of a name for a minute once two consecutive
// answers reported it, a failure for a few seconds, so that a dead zone costs one query and not one
// a URL. The cache is a bounded LRU. Concurrent lookups of a name share one query.
//
// A Resolver is safe for concurrent use.
package resolve
