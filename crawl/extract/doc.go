// Package extract extracts the links of fetched documents: of HTML and XHTML, of the answer's
// headers, of sitemaps, feeds and style sheets. It makes no requests; its input is a document, its
// output a [Page].
//
// Terms:
//
//   - link: a URL that leads to another document (a, area, link, iframe, frame, a refresh, a
//     sitemap's entry).
//   - requisite: a URL that a browser needs to render the page (images, scripts, style sheets and
//     what these import); extracted on request.
//   - href: a URL as written, before it is resolved; resolved against the base into its canonical
//     form (package link).
//   - inert: inside a template, which is not part of the document.
//
// # Performance
//
// A general HTML tokenizer costs most of a crawler's CPU time. The scanner here searches from one
// less-than sign to the next, skips the attributes of elements without links, and keeps of the tree
// builder only what determines whether a tag is a tag: raw text, comments, SVG and MathML,
// templates, framesets. Hrefs are deduplicated as written before any is decoded or resolved, and
// once more after resolving. All buffers are in the [Extractor]; a page costs one allocation, the
// text of its URLs. A fuzz test compares the scanner with golang.org/x/net/html.
//
// # Limits
//
// Work is linear in the document. A page yields at most [MaxLinks] links of together
// [MaxLinkBytes], whatever its size and nesting depth. An Extractor is not safe for concurrent use:
// each goroutine that extracts has its own.
package extract
