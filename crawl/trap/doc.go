// Package trap finds the parts of a host that make up pages without end, by five rules:
//
//  1. Structure: [Structure] rejects URLs with repeated or too many path segments.
//  2. Repeats within a pattern: 1,000 stale pages in a row end the pattern of their URL.
//  3. Depth without news: beyond 200 links from the entry point, 100 pages in a row with a known
//     text (digits masked) and no new URL outside the pattern end the pattern at that depth.
//  4. Query combinations: of one path with two or more query keys, after 1,000 combinations, 500
//     in a row with a known text and no new URL without a query end the rest.
//  5. Host without news: 5,000 pages in a row with a known text and no new URL of a pattern that
//     had new texts end the rest of the host.
//
// A page is stale if its text was seen on the host and it brings no new URL outside its pattern.
// [State.Observe] takes pages in, and [State.Verdict] judges URLs that wait: what repeats comes
// after others. [State] is a plain value, bounded by [MaxBytes].
package trap
