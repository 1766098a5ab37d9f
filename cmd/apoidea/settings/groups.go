package settings

import "strings"

// Group is a group of flags in the help of run.
type Group struct {
	// Title is the heading.
	Title       string
	flags, rare string
}

// Flags returns the names shown by run --help, in order.
func (g *Group) Flags() []string { return strings.Fields(g.flags) }

// Rare returns the names shown by help settings only.
func (g *Group) Rare() []string { return strings.Fields(g.rare) }

// Groups has each flag of run once. The group may contain flags of every command.
var Groups = []Group{
	{"Most used:", "contact dns-seed bootstrap profile data-dir until-idle max-pages max-depth delay bandwidth", ""},
	{
		"Job:", "seeds sitemap scope include exclude max-bytes max-pages-per-host requisites trap-rules patience again",
		"first wait no-sitemaps retries jobs job-key",
	},
	{
		"Politeness and limits per site (apoidea help limits):", "proxy allow-private max-requests-per-host max-bytes-per-host",
		"header archive-headers cookies from optout-file optout-url optout-listen optout-proof fetch-from domain-delay ip-permits max-body page-hosts domain-hosts",
	},
	{
		"Resource limits (apoidea help limits):", "cpu-share memory disk-quota quota-month schedule only-when-idle pause-on-battery",
		"bandwidth-up fetchers disk-reserve quota-day outside pause-on-metered forget-limits",
	},
	{"Ring and connectivity (apoidea help seeds):", "name found mdns listen", "network dns-server reachability nat-traversal replicas lease-ttl"},
	{"Placement (apoidea help placement):", "placement", "probe geoip hierarchy"},
	{"Storage:", "archive", "archive-noindex duplicates seen"},
	{"Monitoring:", "dashboard", "dashboard-login metrics pprof api-remote"},
	{"Research:", "", "governor max-d holiday latency latency-row latency-peers"},
}
