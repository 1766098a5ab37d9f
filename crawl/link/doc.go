// Package link is the vocabulary of a crawl: what a URL is, what it was found as, and how its
// exchange ended. It knows no other package.
//
// Its words:
//
//   - canonical URL: the one spelling under which every peer knows a page. WHATWG parsing, then the
//     crawl rules of [Canonical].
//   - host: the canonical URL's host in lower-case punycode, with its port unless that is the
//     scheme's own. It picks the owner on the ring.
//   - base: the URL against which the hrefs of a document are resolved, see [Base].
//   - hash: eight bytes that stand for a URL in the URL set of a job's host, see [Hash].
//   - trap: a part of a site that makes up URLs without end, see [Trap].
//
// Two peers that disagree on the canonical form would both crawl a page or neither, so the rules
// carry a version ([RulesVersion]) and the owner canonicalises again what it receives: [Canonical]
// is idempotent. Functions are safe for concurrent use; a [Base] is not changed by use and so may
// be shared as well.
package link
