// Package extract finds the links of fetched documents: of HTML and XHTML, of the answer's headers,
// of sitemaps, feeds and style sheets. It opens nothing and follows nothing; a document in, a
// [Page] out.
//
// Its words:
//
//   - link: a URL that leads to another document (a, area, link, iframe, frame, a refresh, a
//     sitemap's entry).
//   - requisite: a URL that a browser needs to show the page (images, scripts, style sheets and
//     what these import); found only when asked for.
//   - href: a URL as written, before it is resolved; resolved against the base into its canonical
//     form (package link).
//   - inert: inside a template, which is no part of the document.
//
// # How the time is kept
//
// A general HTML tokenizer costs most of a crawler's CPU. The scanner here looks from one less-than
// sign to the next, leaves attributes unread in elements that hold no links, and keeps of the tree
// builder only what decides whether a tag is a tag: raw text, comments, SVG and MathML, templates,
// framesets. Hrefs are deduplicated as written before any is decoded or resolved, and resolved ones
// once more. All buffers live in the [Extractor]; a page costs one allocation, the text of its
// URLs. A fuzz test holds the scanner to golang.org/x/net/html.
//
// # Bounds
//
// Work is linear in the document. A page gives at most [MaxLinks] links of together [MaxLinkBytes],
// whatever its size and however deep its elements nest. An Extractor is not safe for concurrent
// use: each goroutine that extracts has its own.
package extract
