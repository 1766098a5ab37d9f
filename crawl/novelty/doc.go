// Package novelty tells sites that make up pages without end (traps) from sites that are merely
// large: is there still anything new to be had of a host?
//
// # What a page's own words are
//
// Words that at least half of a host's pages carry are its frame, and say nothing. A page's own
// words are the others beside links, without the words of its own URL; the address of an image
// counts as a word, a number does not. [frame.Hosts] takes the frame away where pages are read, and
// reports a hash of what is left. The owner of the host remembers such hashes.
//
//   - A page is new if nobody said its own words before.
//   - It is empty if it has none, or if several pages said the same. Where copies are usual more of
//     them are needed: mirrors, versions, permalinks.
//   - It is one of numbers if it has no own words, but numbers of its own: the pages of a table.
//   - A redirect is an empty page that brings its goal.
//
// # Parts
//
// A part of a host is what its URLs have in common, see package shape: /wiki/*?action. A part lives
// if one in ten of its pages is new. It is worth its requests if it lives, or if its pages lead to
// another part that lives, as lists do.
//
// # Accounts
//
// Each part has an account, and there is one for all pages of a host whose part is not worth its
// requests, or not known yet. An empty page adds one; a new one, and an empty one that leads to a
// part that lives, takes off nineteen. A page of numbers adds little, and only if it brings URLs,
// or has none in its address that says which of many items it is. An error adds next to nothing,
// unless it stands among empty pages that bring URLs.
//
// Words can be made up. So there is a second account of where links lead. A page whose links go to
// new URLs and to nothing known but what all pages link to may be of a labyrinth, or of a tree.
// Trees have leaves, and graphs have links between their pages; both empty the account. URLs of
// parts that are known to end are not counted.
//
// # What an account does
//
// Suspicion orders: from an eighth of the way on, a part waits behind the rest of its host, and so
// do the URLs that an empty page brings. Where links are suspicious, one URL in sixteen goes first,
// so that the leaves of a tree come to light before all its branches were asked for.
//
// A full account stops: that of a part leaves the part, that of the host leaves all but the parts
// that are worth their requests; of parts that are not known some pages are tried.
//
// # Who keeps what
//
// [State] is kept for each host and job, bounded in bytes: a plain value without clock, goroutine
// or lock. It is a record of some kilobytes, written every 128 pages and when a lease ends. Of two
// copies the one that has seen more pages stays. A URL whose host or part is a trap gets that
// outcome when its turn comes. Hosts without end, each of which may be small, are package farm's.
package novelty
