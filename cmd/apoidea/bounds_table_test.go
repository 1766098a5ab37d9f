package main

import "github.com/apoidea/apoidea/node"

// bounds is the table of bounds. What a flag sets has the flag's default, everything else the constant's very value.
var bounds = []bound{
	// The peer and its machine.
	{what: "memory", flag: "memory", then: "pages have a quarter of it: near it fewer are fetched at once, and bodies over the free part of each go to disk"},
	{what: "free part of a body in memory", format: "%s", at: "crawl/fetch FreeBody", then: "beyond it a body waits for room, or goes to `<data-dir>/spill`"},
	{what: "pages on disk while memory is short", format: "%s", at: "node maxSpilled", then: "fetches wait until pages are processed"},
	{what: "disk beyond the reserve before anything is spilled", format: "%s", at: "node spillReserve", then: "nothing goes to `spill`; fetches wait"},
	{what: "free disk", flag: "disk-reserve", then: "the peer stops, with what it acknowledged on disk"},
	{what: "data directory", flag: "disk-quota", then: "the peer pauses"},
	{what: "bytes a second", flag: "bandwidth", then: "sites and peers share them; fetches start as they fit"},
	{what: "processor time", flag: "cpu-share", then: "no fetch begins while more was used"},
	{what: "exchanges under way", flag: "fetchers", then: "hosts that are due wait"},
	{what: "idle connections to sites", format: "%s, for %s", at: "crawl/fetch DefaultConfig.MaxIdleConns DefaultConfig.IdleTimeout", then: "the one idle longest is closed"},
	{what: "a step of the owner", format: "%s", at: "node stepTime", then: "the rest of a long list goes on in the next step; it is acknowledged when done"},
	{what: "time in which nothing moves although there is work", format: "%s", at: "node/stall After", then: "`status`, log, `doctor` and a metric say so; the stacks go to `<data-dir>/stalls`"},
	{what: "files of stacks, the size of one", format: "%s, %s", at: "node/stall maxFiles maxStacks", then: "the oldest goes; the rest of one is cut"},
	{what: "lines of one message in the log", format: "%s in %s, %s of a library's, %s of all of a library's", at: "node/logs First Window FirstForeign Foreign", then: "the others are counted, and told at the minute's end"},
	{what: "a text in the log", format: "%s bytes", at: "node/logs MaxText", then: "it is cut"},
	// Jobs.
	{what: "pages of a job", flag: "max-pages", then: "nothing more of it is granted, and it is done"},
	{what: "bytes of a job", flag: "max-bytes", then: "nothing more of it is granted, and it is done"},
	{what: "pages of a host", flag: "max-pages-per-host", then: "the host's other URLs of the job are left"},
	{what: "depth", flag: "max-depth", then: "links beyond are not taken in"},
	{what: "requests of a job to a host", flag: "max-requests-per-host", each: func(c *node.Config) int { return c.MaxRequestsPerHost }, then: "errors, redirects and denials count; what is left ends as `out_of_budget`"},
	{what: "pages in a row that bring nothing new", flag: "novelty", then: "what is left of their host, or of their part of it, ends as `trap`"},
	{what: "new hosts that the links of a page lead to", flag: "page-hosts", each: func(c *node.Config) int { return c.PageHosts }, then: "the other links are not taken, and are counted as cut"},
	{what: "hosts of a registrable domain in a job", flag: "domain-hosts", each: func(c *node.Config) int { return c.DomainHosts }, then: "further hosts are turned away without a record"},
	{what: "seeds, patterns of scope", format: "%s, %s", at: "crawl/wire MaxSeeds MaxScope", then: "the job is refused"},
	{what: "tries of a URL that failed for a passing reason", flag: "retries", then: "the failure is final"},
	{what: "time that a crawl waits for what is put off", flag: "patience", then: "`--until-idle` and `--wait` end; a later run takes those URLs up"},
	// Sites: manners.
	{what: "gap between requests to a host", flag: "delay", then: "the next request waits"},
	{what: "Crawl-delay that a host's pace follows", format: "%s", at: "crawl/frontier DefaultMaxCrawlDelay", then: "a longer one counts as this"},
	{what: "Retry-After", format: "%s", at: "crawl/fetch MaxRetryAfter", then: "a longer one counts as this"},
	{what: "requests a minute to an address, of all peers", flag: "ip-permits", each: func(c *node.Config) int { return c.IPPermits }, then: "the host waits for the next minute"},
	{what: "robots.txt", format: "%s", at: "crawl/robots MaxBody", then: "it is cut at its last whole line"},
	{what: "a pattern of robots.txt", format: "%s bytes", at: "crawl/robots maxPattern", then: "one that disallows is cut, and so disallows more; one that allows admits nothing"},
	{what: "sitemaps of a robots.txt", format: "%s", at: "crawl/robots MaxSitemaps", then: "the others are left out"},
	{what: "redirects of robots.txt", format: "%s", at: "crawl/robots MaxRedirects", then: "other hosts' included; beyond, as if there were no file, as RFC 9309 says"},
	{what: "a robots.txt that cannot be reached", format: "%s", at: "crawl/robots GiveUp", then: "nothing of the host is asked until then; afterwards what is known counts"},
	{what: "an opt-out list", format: "%s, %s rules", at: "crawl/optout MaxList MaxRules", then: "the list is refused; the last good one holds"},
	// Sites: what they send.
	{what: "connect, TLS, head, all of an exchange", format: "%s, %s, %s, %s", at: "crawl/fetch DefaultConfig.ConnectTimeout DefaultConfig.TLSTimeout DefaultConfig.HeaderTimeout DefaultConfig.TotalTimeout", then: "outcome `timeout`; tried again"},
	{what: "slowest body", format: "%s bytes/s after %s", at: "crawl/fetch DefaultConfig.MinRate DefaultConfig.MinRateGrace", then: "outcome `timeout`; tried again"},
	{what: "a response head", format: "%s", at: "crawl/fetch DefaultConfig.MaxHeader", then: "outcome `too_large`"},
	{what: "a body", flag: "max-body", then: "outcome `too_large`; the links of what was taken are followed"},
	{what: "HTTP/2 frames that are no part of a response", format: "%s beside twice the head, %s times the body, %s at rest", at: "crawl/fetch headNoise bodyNoise idleNoise", then: "the connection is closed"},
	{what: "redirects of a URL", format: "%s", at: "crawl/wire MaxRedirects", then: "the chain ends there"},
	{what: "a URL", format: "%s, %s bytes of credentials, host and port", at: "crawl/link MaxURL maxAuthority", then: "it is no link"},
	{what: "links of a page", format: "%s, %s", at: "crawl/extract MaxLinks MaxLinkBytes", then: "the others are counted as left out, and `why` knows"},
	{what: "a sitemap, as it comes and unpacked", format: "%s", at: "crawl/extract MaxSitemap", then: "the URLs of its beginning are followed; `--max-body` is not for sitemaps"},
	// Peers.
	{what: "copies of a record", flag: "replicas", then: "no further peer keeps it"},
	{what: "leaf peers on each side", format: "%s", at: "dht/ring DefaultR", then: "those further away are forgotten"},
	{what: "a message between peers", format: "%s", at: "dht/p2p maxFrame", then: "it is cut into pieces; what a stranger sends beyond ends its connection"},
	{what: "questions of peers at once", format: "%s, %s of large ones", at: "dht/p2p maxHandlers maxLargeBytes", then: "the sender is told busy, and keeps what it has"},
	{what: "connections to peers", format: "%s, %s in the public profile", at: "node labHighWater publicHighWater", then: "those that matter least to the ring are closed"},
	{what: "addresses of peers that are remembered", format: "%s", at: "dht/p2p maxKnownAddrs", then: "further ones are not kept"},
	{what: "workers behind routers that a member takes", format: "%s", at: "dht MaxAttached", then: "they look for another member"},
	{what: "peers that a member relays for", format: "%s, %s of an address", at: "dht/p2p relaySlots relaySlotsPerIP", then: "they look for another relay"},
	{what: "life of a lease without a heartbeat", flag: "lease-ttl", then: "the host goes to another worker"},
	// People.
	{what: "browsers on the page, followers of its figures", format: "%s, %s", at: "node/dashboard maxConns maxStreams", then: "further ones wait or are refused"},
}
