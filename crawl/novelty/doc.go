// Package novelty tells sites that make up pages without end from those that are merely large: it looks at whether what a host brings is new.
//
// Its words:
//
//   - print: the simhash of a page's words, package extract's Fingerprint. Prints that differ in [Near] bits or less are near duplicates.
//   - repeat: a page whose print is near one of the last ones of its host. strong if that holds for all of its words, weak if only for those beside links.
//   - growing: a repeat that brings URLs of its own host, or stands within [nearby] pages behind such a one; in a part, one of the part. A site that ends stops
//     growing, however much alike its pages are; a trap never does. Among the pages of a maze errors grow as well.
//   - exact: a repeat that says the same to the last number, but for words of its own address, several times. near: any other. A shop or a table says
//     almost the same on thousands of pages, and each says something; what is made up seldom bothers.
//     Where nothing grows, exact repeats count for a twenty-fifth, and errors for half of that: a list may name millions of such.
//   - maze: pages that bring three URLs or more each and whose links are otherwise those that all pages here have: a graph without cycles. chain: the same
//     with one or two.
//   - shape: a URL with its numbers, tokens and dates taken out, its query the sorted names of its parameters. area: the first one or two
//     segments of its path. form: its first folder and the sorted names of its parameters, which tell the articles of a wiki from their histories. tail: the
//     same with the last segment of a path of three or more; and all forms of a folder that ask for something. Each of them is a part of the host.
//   - to live: to have brought something of late, as one in ten of the last pages of a part, at least, did.
//
// Each of a host and its parts has a score. A growing repeat adds to it, and a page that brings anything new takes off what nineteen of those add, down
// to zero: so only a long run of which nineteen in twenty bring nothing new comes to [State.Verdict] that it is a trap. Where only other hosts bring
// the URLs a repeat adds a third. Near repeats count apart, and take sixteen times as many pages as exact ones do; pages with nothing new but the words of their
// links three times, a maze six times, a chain twelve times. An area goes by exact repeats alone, since its lists bring what lies in it; another
// part by near ones as well where its own pages bring the URLs; the host by all evidence.
//
// A part is left, and the rest of its site goes on. A host, or an area, of which most brings nothing is left but for its forms that live, and for some
// pages of those that are not known yet, if it ever brought anything; a host whose links make it a maze is left as a whole, since every page of one says
// something. From a quarter of the way on the URLs in question are to be asked for less and less often,
// and the nearer the fewer of them at once.
//
// [State] is kept for each host and job, bounded in bytes; [Kin] for each registrable domain and job: the same for its hosts, each of which may be small;
// [Farm] for each job on a peer: for hosts which bring ever new hosts that say what others said before. All are plain values without clock, goroutine or lock.
//
// # How traps are seen
//
// The worker takes a simhash of each page's words, and a hash of exactly these, while it scans for
// links and tells them with the outcome; the owner of the host holds it against those that came
// before, counts how many URLs the page brought, and keeps scores for the host and for its parts:
// shapes of URLs, folders, and forms, which tell articles from their histories (crawl/novelty).
// Pages that bring more URLs and say exactly what others said add most; near duplicates of one
// template, each with a number of its own, a sixteenth of that; and where nothing grows, the same
// page again and errors add least, since sitemaps name millions of them. A host that is a trap, or
// out of its budget of requests, is a fate as others are; a URL whose shape is one is given its
// outcome when its turn comes. The state is a record of the host and job (some kilobytes, written
// every 128 pages and when a lease ends); of two copies that which has seen more pages stays. What
// says that a host brings nothing stops no form of it that still does. Farms of hosts are looked
// at from two other sides: the owner of a page that links to new hosts notes whether other hosts
// said the same (one state for each job and peer, of no use to others); and questions for
// admission tell the owner of the registrable domain what the first pages of its hosts say, so
// that a domain of small hosts that are all alike gets no more.
package novelty
