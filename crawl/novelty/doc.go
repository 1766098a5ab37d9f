// Package novelty tells sites that make up pages without end (traps) from sites that are merely
// large. It looks at whether the pages of a host still bring anything new.
//
// Its words for pages:
//
//   - print: the simhash of a page's words (Fingerprint of package extract). Two prints that differ
//     in at most [Near] bits are near duplicates.
//   - repeat: a page whose print is near that of one of its host's last pages. It is strong if this
//     holds for all of its words, weak if it holds only for the words beside links.
//   - growing: a repeat that brings URLs of its own host, or that comes at most [nearby] pages
//     after one that did. For a part of a host, only pages of that part count. A site that ends
//     stops growing at some time, however alike its pages are; a trap never does. Among the pages
//     of a maze, errors count as growing too.
//   - exact: a repeat that says the same to the last number, several times; words of its own
//     address do not count. Every other repeat is near. A shop or a table has thousands of pages
//     that are almost the same, and each says something; a page that is made up seldom does.
//   - maze: pages that each bring three URLs or more, and whose other links are those that all
//     pages of the host have: a graph without cycles. A chain is the same with one or two URLs.
//
// Its words for parts of a host:
//
//   - shape: a URL without its numbers, tokens and dates; of the query the sorted parameter names.
//   - area: the first one or two segments of the path.
//   - form: the first folder and the sorted parameter names. It tells the articles of a wiki from
//     their histories.
//   - tail: a form with the last segment of a path of three segments or more. All forms of a folder
//     that have a query are a part as well.
//   - live: a part lives if at least one in ten of its last pages brought something.
//
// # The score
//
// A host and each of its parts have a score. A growing repeat adds to it. A page that brings
// anything new takes off as much as nineteen growing repeats add, down to zero. So only a long run
// in which nineteen of twenty pages bring nothing new makes [State.Verdict] say that it is a trap.
//
// Some repeats count for less, so that more of them are needed:
//
//   - near repeats have a score of their own, which takes sixteen times as many pages;
//   - where only other hosts bring the URLs, a repeat adds a third;
//   - pages of which only the words of their links are new take three times as many, a maze six
//     times, a chain twelve times;
//   - where nothing grows, an exact repeat adds a twenty-fifth, and an error half of that: a list
//     may name millions of such pages.
//
// A host is judged by all evidence. An area is judged by exact repeats alone, since its lists bring
// what lies in it. Any other part is judged by near repeats too, where its own pages bring the
// URLs.
//
// # What a verdict does
//
// A part that is a trap is left; the rest of its site goes on. When a host or an area is left, its
// forms that live go on, and so do some pages of forms that are not known yet, if the host or area
// ever brought anything. A host that is a maze is left as a whole, since each of its pages says
// something. From a quarter of the way to a trap on, URLs in question are asked for less and less
// often, and fewer of them at once.
//
// From half of the way on, the URLs of a part wait behind the other URLs of their host; where near
// duplicates are the evidence, from a sixteenth of the way on.
//
// # Who keeps what
//
// [State] is kept for each host and job, bounded in bytes. [Kin] is the same for the hosts of a
// registrable domain, each of which may be small. [Farm] is kept for each job on a peer: it finds
// hosts that lead to ever new hosts which say what others said before. All three are plain values
// without clock, goroutine or lock.
//
// The worker takes the simhash of a page's words, and a hash of exactly these words, while it scans
// for links, and reports both with the outcome. The owner of the host compares them with earlier
// pages, counts the URLs that the page brought, and keeps the scores. The state is a record of some
// kilobytes; it is written every 128 pages and when a lease ends. Of two copies the one that has
// seen more pages stays. A URL whose host or shape is a trap gets that outcome when its turn comes.
//
// Farms of hosts are seen from two other sides. The owner of a page that links to new hosts notes
// whether other hosts said the same; this state is of use to no other peer. And whoever asks for
// the admission of a host tells the owner of its registrable domain what the first pages of its
// hosts there say, so that a domain of small hosts that are all alike gets no more of them.
package novelty
