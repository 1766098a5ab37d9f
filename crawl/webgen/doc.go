// Package webgen is a synthetic web: many hosts, served over HTTP from one process, all of it a
// function of a seed, with an audit of how it was crawled.
//
// Words. A host is a number h, named h<h>.<Domain>. A page is a number n on a host; its URL is
// fixed (page 0 is "/", the others lie in one of sixteen sections, "/s7/23.html"). What a page
// answers with is its kind: plain, duplicate, redirect, gone, flaky, slow. A body is named by the
// page that it was made for; a duplicate serves the body of another page, byte for byte, and what
// its relative links then mean is decided by where it is served, as on the real web.
//
// Nothing is stored: kind, links and text of a page are computed anew at each request from (seed,
// host, page), so a web of a billion pages costs as much memory as one of ten. Only the audit
// remembers, and only what was asked for.
//
// Promises. The same Config is the same web, everywhere and always. [Web.Truth] walks the generator
// itself, not the pages it serves, and says which URLs a right crawler fetches. The audit never
// reports an overlap that did not take place: a response counts as ended before its last bytes are
// written. All methods are safe for concurrent use.
//
// The names end in .localhost, which is loopback by RFC 6761, section 6.3: nothing in this package
// reaches the outside.
package webgen
