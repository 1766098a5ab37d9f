package settings

import "strings"

// Group is a group of flags in the help of run.
type Group struct {
	// Title is the heading.
	Title string
	flags string
}

// Flags returns the names in order.
func (g *Group) Flags() []string { return strings.Fields(g.flags) }

// Groups has each flag of run once. The first group may contain flags of every command.
var Groups = []Group{
	{"Most used:", "contact dns-seed bootstrap profile data-dir until-idle max-pages max-depth delay bandwidth"},
	{"Job:", "seeds sitemap scope include exclude first max-bytes max-pages-per-host requisites no-sitemaps trap-rules retries patience wait again jobs job-key"},
	{"Politeness and limits per site (apoidea help limits):", `proxy header archive-headers cookies from optout-file optout-url optout-listen optout-proof allow-private fetch-from domain-delay ip-permits
		max-requests-per-host max-bytes-per-host max-body page-hosts domain-hosts`},
	{"Resource limits (apoidea help limits):", `bandwidth-up fetchers cpu-share memory disk-quota disk-reserve quota-day quota-month schedule outside
		only-when-idle pause-on-battery pause-on-metered forget-limits`},
	{"Ring and connectivity (apoidea help seeds):", "name network found mdns dns-server listen reachability nat-traversal replicas lease-ttl"},
	{"Placement (apoidea help placement):", "placement probe geoip hierarchy threshold theta coordinates-mode gossip"},
	{"Storage:", "archive archive-noindex duplicates seen"},
	{"Monitoring:", "dashboard dashboard-login metrics pprof api-remote"},
	{"Research:", "governor max-d holiday latency latency-row latency-peers"},
}
