// Package glossary defines the terms of help, docs/glossary.md and the web page.
package glossary

import (
	"fmt"
	"strings"
)

// Word is a term and its meaning in this project.
type Word struct{ Word, Means string }

// Words is ordered alphabetically.
var Words = []Word{
	{"arc", "The part of the ring that a peer is responsible for: from its predecessor, exclusive, to itself."},
	{"archive", "The pages that a peer fetched, as WARC files in the directory archive of its data directory. Other peers have no copy."},
	{"bootstrap", "To join a ring by the address of one of its peers (--bootstrap)."},
	{"candidate", "A peer that may crawl a host: the owner, a peer of its leaf set, or a worker attached to it."},
	{"certificate", "The signed right of a peer to be a member of a ring by invitation, for a time. At most three lead from the founder to a member (apoidea ring invite)."},
	{"charter", "The property of a ring that is fixed when it is founded: open, or by invitation with the identity of its founder (--admission)."},
	{"consistent", "Of a ring: every member responds, and is responsible for exactly the arc from its predecessor to itself. No records are in transit. Only a walk over all members can show it: \"apoidea ring\", \"apoidea status --ring\", and the web page. JSON: closed."},
	{"contact", "The URL or mail address in the User-Agent, by which a webmaster can reach the operator (--contact)."},
	{"converging", "Of a ring: not consistent. A member joins, leaves or does not respond, an arc has no owner, or records are in transit. \"apoidea ring\" reports the reason. The ring becomes consistent without intervention. JSON: open."},
	{"data directory", "Identity, records and archive of a peer. One peer at a time uses it (--data-dir)."},
	{"deferred", "Of a URL: pending, with its next attempt later than the patience. A later run fetches it."},
	{"DNS seed", "A domain name whose TXT records list entry peers of a ring (--dns-seed)."},
	{"duplicate", "A page whose body was archived before, from any host of the ring. It is archived as a revisit, without the body."},
	{"entry peer", "A peer that a joining peer contacts first. Any member that can be dialed is suitable."},
	{"fetched again", "URLs fetched although their outcome was already reported, for example after a failure. The end summary counts them."},
	{"handoff", "The transfer of records to a new owner when peers join, leave or fail."},
	{"host", "A name, with its port unless that is the default. All URLs of a host have one owner, and one worker at a time."},
	{"job", "The specification of a crawl: seeds, scope and limits. It belongs to the ring. The same arguments posted again are the same job."},
	{"job key", "The key that signs the jobs posted at a peer, and each change of their state. A job cannot be changed or ended without it. It is the peer's identity unless --job-key names a file; \"apoidea job keys\" prints its ID."},
	{"key", "A point of the ring: the SHA-256 of a host's name or of a peer's identity."},
	{"leaf set", "The nearest peers of a peer on the ring, up to eight on each side. Workers are chosen from it."},
	{"lease", "The right of one worker to fetch from a host, for 8 seconds (--lease-ttl) unless it is renewed. No other peer fetches from the host meanwhile."},
	{"lease certificate", "An owner's signature of a lease. It proves that a worker had a host, so that its late outcomes count."},
	{"link farm", "A domain that generates hosts without end."},
	{"member", "A peer that others can dial, and that is responsible for an arc. In a ring by invitation it needs a certificate."},
	{"network", "The name of a ring. Peers of different networks do not connect (--network)."},
	{"opt-out", "A site's request not to be crawled, for a host, a domain, an address or a URL pattern. It is stored on the ring, or in a list of the peer."},
	{"outbox", "The queue of links to hosts of other owners, until those have stored them."},
	{"outcome", "The result of a URL: fetched, duplicate, redirect, denied by robots.txt, failed, trap, and so on. \"apoidea why\" and \"apoidea export urls\" print it."},
	{"owner", "The peer whose arc contains a host's key. It stores which URLs of the host are known, pending and done, and chooses the worker."},
	{"patience", "The longest time until the next attempt of a URL for which a crawl waits at its end (--patience)."},
	{"peer", "A running apoidea process. All run the same program; there is no coordinator."},
	{"pending", "Of a URL: known, and not fetched yet."},
	{"permit", "The right to make one request to an IP address. All peers share a number of them a minute (--ip-permits)."},
	{"placement", "The choice of the worker of a host (\"apoidea help placement\")."},
	{"politeness delay", "The minimum delay between two requests to a host, by default one second (--delay). A Crawl-delay in robots.txt extends it. All hosts of a domain can share one (--domain-delay)."},
	{"probe", "A measurement of the round-trip time to a site. A site receives at most one per peer in 30 seconds."},
	{"profile", "The defaults for limits: public, for rings of untrusted peers, or lab, for your own machines (--profile)."},
	{"replica", "A copy of a peer's records on the next peers of the ring, in case it fails. Three peers store each record, including its owner (--replicas)."},
	{"revisit", "An archive record of a page whose body equals that of another record."},
	{"ring", "The circle of keys on which the peers of a network and the hosts that they crawl have their positions."},
	{"scope", "The hosts that a job may crawl: by default those of its seeds, and those that seeds redirect to (--scope)."},
	{"seed", "A URL that a job begins with. (\"apoidea seed\" and DNS seeds are about entry peers.)"},
	{"stable", "Of a peer's neighborhood: unchanged for two rounds, as far as this peer has observed (\"apoidea status\"). It does not show the state of the ring. JSON: settled."},
	{"trap", "A site, or a part of one, that generates pages without end."},
	{"untrusted peer", "A peer that is not known to be a member of the ring. Its requests have tighter limits."},
	{"worker", "The peer that fetches a host's pages, under a lease. Also: a peer that is no member, which crawls for members and owns no arc."},
}

// Text returns the glossary for a terminal.
func Text() string {
	width := 0
	for _, w := range Words {
		width = max(width, len(w.Word))
	}
	var b strings.Builder
	for _, w := range Words {
		fmt.Fprintf(&b, "    %-*s  %s\n", width, w.Word, w.Means)
	}
	return "Terms of this project:\n\n" + b.String()
}
