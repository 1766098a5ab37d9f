// Package link defines the basic types of a crawl: URLs, the kinds of links, and the outcomes of
// exchanges. It imports no other package of this module.
//
// Terms:
//
//   - canonical URL: the one spelling of a URL that every peer uses. WHATWG parsing, then the crawl
//     rules of [Canonical].
//   - host: the canonical URL's host in lower-case punycode, with its port unless that is the
//     scheme's default. It determines the owner on the ring.
//   - base: the URL against which the hrefs of a document are resolved, see [Base].
//   - hash: eight bytes that identify a URL in the URL set of a job's host, see [Hash].
//   - trap: a part of a site that generates URLs without end, see [Trap].
//
// If two peers disagreed on the canonical form, both or neither would crawl a page, so the rules
// have a version ([RulesVersion]) and the owner canonicalizes what it receives: [Canonical] is
// idempotent. Functions are safe for concurrent use; so is a [Base], which is not modified by use.
package link
