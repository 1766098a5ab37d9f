// Package glossary has the words that users meet, for help, for docs/glossary.md, which is made
// from it, and for the page.
package glossary

// Word is a word and what it means here.
type Word struct{ Word, Means string }

// Words are in the order of the alphabet.
var Words = []Word{
	{"arc", "The part of the ring that a peer answers for: from behind its predecessor up to itself."},
	{"archive", "The pages that a peer fetched, as WARC files in the directory archive of its data directory. They are on the disk of the peer that fetched them, and nowhere else."},
	{"bootstrap", "To enter a ring by the address of a peer in it (--bootstrap)."},
	{"candidate", "A peer that may crawl a host: the owner, one of its leaf set, or a worker attached to it."},
	{"closed", "Of a ring: a walk over it had an answer from every member, and each answers for the arc from its predecessor to itself, all the way round, with no records on their way. Only a walk can tell: \"apoidea ring\", \"apoidea status --ring\", and the page, which says when it walked."},
	{"contact", "The URL or mail address that sites read in the User-Agent, so that a webmaster can reach who runs the peer (--contact)."},
	{"data directory", "All that a peer has: its identity, its records, its archive. One peer at a time runs in it (--data-dir)."},
	{"DNS seed", "A domain name whose TXT records name entry peers of a ring (--dns-seed)."},
	{"duplicate", "A page whose body was met before, on whatever host of the ring. It is archived as a revisit, without the body."},
	{"entry peer", "A peer of a ring that a newcomer asks first. Any member that can be dialled will do."},
	{"host", "A name, with its port where that is not the usual one. All URLs of a host have one owner, and one worker at a time."},
	{"job", "What is to be crawled: seeds, scope and bounds. It belongs to the ring, and the same words posted again are the same job."},
	{"job key", "The key that signs the jobs posted at a peer, and each change of their state: who does not have it can neither change nor end them. It is the peer's identity unless --job-key names a file; \"apoidea job keys\" prints its ID."},
	{"key", "A point of the ring. SHA-256 draws it: that of a host from its name, that of a peer from its identity."},
	{"leaf set", "The nearest peers of a peer on the ring, up to eight on each side. It knows them all, and chooses workers among them."},
	{"lease", "The right of one worker to fetch from a host, for 8 seconds (--lease-ttl) unless it is renewed. Nobody else fetches from the host meanwhile."},
	{"member", "A peer that others can dial, and that answers for an arc."},
	{"network", "The name of a ring. Peers of different networks do not meet (--network)."},
	{"novelty", "Whether a host still brings words of its own. After so many pages in a row that bring none, the rest of the host, or of that part of it, is left as a trap (--novelty)."},
	{"open", "Of a ring: not closed. Somebody joins, leaves or does not answer, an arc has nobody, or records are on their way. \"apoidea ring\" says which. It closes by itself."},
	{"opt-out", "The wish of a site not to be crawled: a host, a domain, an address or a URL pattern. It is kept on the ring, or in a list of the peer's own."},
	{"outbox", "Where links to hosts of other owners wait until those have them on disk."},
	{"outcome", "What became of a URL: fetched, a duplicate, a redirect, denied by robots.txt, failed, left as a trap, and so on. \"apoidea why\" and \"apoidea export urls\" tell it."},
	{"owner", "The peer whose arc a host's key lies in. It keeps which URLs of the host are known, pending and done, and chooses the worker."},
	{"patience", "How far away the next try of a URL may be for a crawl to wait for it at its end (--patience)."},
	{"peer", "One running apoidea. All run the same program, and none leads."},
	{"pending", "Of a URL: known, and not fetched yet."},
	{"permit", "Leave for one request to an IP address, of a number a minute that all peers share (--ip-permits)."},
	{"placement", "The choice of the worker of a host (\"apoidea help placement\")."},
	{"politeness delay", "The least gap between two requests to a host, one second unless set (--delay). A Crawl-delay in robots.txt makes it longer. All hosts of a domain can have one together (--domain-delay)."},
	{"probe", "A measurement of the way to a site, at most one by each peer in half a minute."},
	{"profile", "How strict a peer is from the start: public, for rings of strangers, or lab, for machines of one's own (--profile)."},
	{"put off", "Of a URL: pending, with its next try further away than the patience. A later run takes it up."},
	{"replica", "A copy of a peer's records on the next peers of the ring, so that nothing is lost with it. Three peers keep each record, its owner among them (--replicas)."},
	{"revisit", "A record of the archive that says that the body of a page is the same as that of another."},
	{"ring", "The circle on which the peers of a network and the hosts that they crawl have their places."},
	{"robots.txt", "A site's rules for crawlers, which are kept to (RFC 9309)."},
	{"scope", "Which hosts a job may crawl. By default those of its seeds, and those that seeds redirect to (--scope)."},
	{"seed", "A URL that a job begins with. (\"apoidea seed\" and DNS seeds are about entry peers.)"},
	{"settled", "Of a peer's neighbours: the same for a while, as far as it has noticed; else they are changing. It is what one peer alone can say (\"apoidea status\"), and no word on the ring."},
	{"trap", "A site, or a part of one, that makes up pages without end."},
	{"volunteer", "Who lends a part of a machine to a ring. Limits keep the peer small (\"apoidea help limits\")."},
	{"worker", "The peer that fetches a host's pages, under a lease. Also: a peer that nobody can dial, which crawls for members and answers for no arc."},
}
