// Package text extracts the text of archived pages: plain text of the whole page, main text, title,
// language and SimHash.
//
// Pages are untrusted. Plain text takes time and memory linear in the page. The library for main
// text makes a tree, so its input is limited in bytes and tags and it has a time limit. Its input
// has no elements that a parser opens again in each block (HTML standard, "reconstruct the active
// formatting elements"): they can make a tree of a thousand times the page.
package text
