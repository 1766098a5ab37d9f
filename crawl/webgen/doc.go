// Package webgen implements a synthetic web for tests: many hosts, served over HTTP from one
// process, computed from a seed, with an audit of all requests.
//
// Terms: a host is a number h, named h<h>.<Domain>. A page is a number n on a host; its URL is
// fixed (page 0 is "/", the others are in one of sixteen sections, "/s7/23.html"). Its kind
// determines its answer: plain, duplicate, redirect, gone, flaky, slow. A body is identified by the
// page that it was made for; a duplicate serves the body of another page, byte for byte, and its
// relative links are resolved where it is served, as on the real web.
//
// Nothing is stored: kind, links and text of a page are computed at each request from (seed, host,
// page), so a web of a billion pages needs as much memory as one of ten. Only the audit has state,
// and only for URLs that were requested.
//
// Guarantees: the same Config is the same web, everywhere and always. Package webtruth traverses
// the generator itself, not the pages it serves, and returns the URLs that a correct crawler
// fetches. The audit never reports an overlap that did not occur: a response counts as ended before
// its last bytes are written. All methods are safe for concurrent use.
//
// The names end in .localhost, which is loopback by RFC 6761, section 6.3: this package sends
// nothing to the outside.
package webgen
