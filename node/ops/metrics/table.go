package metrics

import (
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/apoidea/apoidea/crawl/link"
)

// namespace begins every name of ours.
const namespace = "apoidea_"

// The kinds of series.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// put gives a value to a series, with its labels in the order of the table.
type put func(v float64, labels ...string)

// series is one row: a name without the namespace, a help text of one sentence, and the source of
// the value.
type series struct {
	name, kind, help string
	labels           []string
	read             func(r *Reading, put put) // nil: observed as it happens
}

// Names of what is observed as it happens.
const (
	nameFetch  = "fetch_seconds"
	nameLookup = "lookup_seconds"
	nameHops   = "lookup_calls"
	nameEvents = "ring_events_total"
)

// table lists every series of ours, in the order in which the documentation has them.
func table() []series {
	return slices.Concat(ofPeer(), ofWorker(), ofOwner(), ofRing(), ofLimits())
}

// one is a series of one value without labels.
func one(name, kind, help string, value func(r *Reading) float64) series {
	return series{name: name, kind: kind, help: help, read: func(r *Reading, put put) { put(value(r)) }}
}

// ofPeer returns the series of the build and the state.
func ofPeer() []series {
	return []series{
		{name: "build_info", kind: gauge, labels: []string{"version", "go_version", "network", "profile"}, help: "Always 1; the labels name the build, network and profile.", read: func(r *Reading, put put) {
			put(1, r.Version, runtime.Version(), r.Network, r.Profile)
		}},
		{name: "state", kind: gauge, labels: []string{"state"}, help: "1 for the current state of the peer, 0 for the other states.", read: readState},
	}
}

// ofWorker returns the series of what this peer fetches, for any owner.
func ofWorker() []series {
	return []series{
		one("requests_total", counter, "HTTP requests to sites that were started, robots.txt included.", func(r *Reading) float64 { return float64(r.Work.Requests) }),
		one("wire_bytes_total", counter, "Bytes received for answered requests, with response headers, without TLS handshakes.", func(r *Reading) float64 { return float64(r.Work.WireBytes) }),
		one("body_bytes_total", counter, "Decoded body bytes of pages and duplicates.", func(r *Reading) float64 { return float64(r.Work.Bytes) }),
		{name: "outcomes_total", kind: counter, labels: []string{"outcome"}, help: "URLs that reached an outcome in this process.", read: func(r *Reading, put put) {
			for i, n := range r.Work.Outcomes {
				if o := link.Outcome(i); o != link.OutcomeNone { // an index of an array of outcomes
					put(float64(n), o.String())
				}
			}
		}},
		one("revisits_total", counter, "Outcomes of URLs that were fetched before.", func(r *Reading) float64 { return float64(r.Work.Revisits) }),
		one("not_modified_total", counter, "Revisits that the server answered with status 304.", func(r *Reading) float64 { return float64(r.Work.NotModified) }),
		{name: nameFetch, kind: histogram, labels: []string{"result"}, help: "Duration of fetches from the request to the last byte, by result: answered with any status, or failed."},
		one("leases_lapsed_total", counter, "Leases on hosts that expired instead of being returned.", func(r *Reading) float64 { return float64(r.Work.Lapsed) }),
		one("reports_dropped_total", counter, "Outcomes dropped because the owner did not answer; their URLs are fetched again.", func(r *Reading) float64 { return float64(r.Work.Dropped) }),
		one("incomplete_total", counter, "Responses archived incomplete: the connection ended early, or decoding failed.", func(r *Reading) float64 { return float64(r.Work.Incomplete) }),
		one("in_flight", gauge, "Fetches in progress.", func(r *Reading) float64 { return float64(r.Work.InFlight) }),
		one("processing", gauge, "Pages fetched and not yet reported.", func(r *Reading) float64 { return float64(r.Work.Processing) }),
		one("unreported", gauge, "Outcomes not yet acknowledged by the owners of their hosts.", func(r *Reading) float64 { return float64(r.Work.Unreported) }),
		one("hosts_held", gauge, "Hosts that this peer holds a lease on, of any owner.", func(r *Reading) float64 { return float64(r.Work.Hosts) }),
		one("window", gauge, "URLs of leased hosts that are queued to be fetched.", func(r *Reading) float64 { return float64(r.Work.Window) }),
	}
}

// ofOwner returns the series of the hosts that this peer owns.
func ofOwner() []series {
	return []series{
		one("pages", gauge, "New documents of owned hosts.", func(r *Reading) float64 { return float64(r.Pages) }),
		one("bytes", gauge, "Decoded bytes of the documents of owned hosts.", func(r *Reading) float64 { return float64(r.Bytes) }),
		one("noindex", gauge, "Documents of owned hosts that are marked noindex and were not archived.", func(r *Reading) float64 { return float64(r.NoIndex) }),
		one("duplicates", gauge, "Documents of owned hosts with known content.", func(r *Reading) float64 { return float64(r.Duplicates) }),
		one("redirects", gauge, "Redirects of owned hosts.", func(r *Reading) float64 { return float64(r.Redirects) }),
		one("errors", gauge, "URLs of owned hosts that ended in an error.", func(r *Reading) float64 { return float64(r.Errors) }),
		one("robots_denied", gauge, "URLs of owned hosts that robots.txt disallows, or whose robots.txt is unreachable.", func(r *Reading) float64 { return float64(r.RobotsDenied) }),
		one("traps", gauge, "URLs of owned hosts skipped by trap detection.", func(r *Reading) float64 { return float64(r.Traps) }),
		one("out_of_budget", gauge, "URLs of owned hosts skipped because a budget was used up.", func(r *Reading) float64 { return float64(r.OutOfBudget) }),
		one("links_cut", gauge, "Links on or to owned hosts dropped: too many new hosts on a page, or too many URLs of a host.", func(r *Reading) float64 { return float64(r.LinksCut) }),
		one("refetched", gauge, "URLs of owned hosts fetched more than once.", func(r *Reading) float64 { return float64(r.Refetched) }),
		one("links_left_out", gauge, "Links on pages of owned hosts beyond the size limits of one page.", func(r *Reading) float64 { return float64(r.LinksLeftOut) }),
		one("urls_seen", gauge, "URLs seen of owned hosts.", func(r *Reading) float64 { return float64(r.URLsSeen) }),
		one("urls_pending", gauge, "URLs of owned hosts that wait for a worker.", func(r *Reading) float64 { return float64(r.URLsPending) }),
		one("urls_leased", gauge, "URLs of owned hosts granted to a worker.", func(r *Reading) float64 { return float64(r.URLsLeased) }),
		one("urls_waiting", gauge, "Pending URLs that wait for a retry.", func(r *Reading) float64 { return float64(r.URLsWaiting) }),
		one("outbox", gauge, "Links that their owners have not acknowledged yet.", func(r *Reading) float64 { return float64(r.Outbox) }),
		one("hosts_owned", gauge, "Hosts that this peer owns.", func(r *Reading) float64 { return float64(r.HostsOwned) }),
		one("owner_longest_step_seconds", gauge, "Longest step of the owner loop since the start, without disk time; requests may have waited that long.", func(r *Reading) float64 { return r.LongestStepMS / 1000 }),
		one("hosts_leased", gauge, "Owned hosts leased to a worker.", func(r *Reading) float64 { return float64(r.HostsLeased) }),
	}
}

// ofRing returns the series of the ring and of replicas.
func ofRing() []series {
	return []series{
		one("ring_members", gauge, "Estimated number of ring members.", func(r *Reading) float64 { return float64(r.Ring.Members) }),
		one("ring_stable", gauge, "1 if the neighbors have not changed recently.", func(r *Reading) float64 { return truth(r.Ring.Stable) }),
		one("ring_arc_share", gauge, "Share of the ring that this peer owns, 0 to 1.", func(r *Reading) float64 { return r.ArcShare }),
		one("ring_leaves", gauge, "Peers in the leaf set.", func(r *Reading) float64 { return float64(len(r.Leaves)) }),
		one("ring_attached", gauge, "Workers behind NAT that are attached to this peer.", func(r *Reading) float64 { return float64(len(r.Attached)) }),
		one("ring_moving", gauge, "1 while records move to or from this peer.", func(r *Reading) float64 { return truth(r.Moving) }),
		{name: nameEvents, kind: counter, labels: []string{"event"}, help: "Ring events at this peer: join, leave, dead, suspect, arc, state."},
		{name: nameLookup, kind: histogram, help: "Duration of lookups whose owner was not known in advance."},
		{name: nameHops, kind: histogram, help: "Calls per owner lookup."},
		one("connections", gauge, "Connections to other peers.", func(r *Reading) float64 { return float64(r.Connections) }),
		one("replicas", gauge, "Replicas of this peer's records that other peers should hold.", func(r *Reading) float64 { return float64(r.Replicas) }),
		one("replicas_level", gauge, "Replicas that are complete.", func(r *Reading) float64 { return float64(r.ReplicasLevel) }),
	}
}

// ofLimits returns the series of limits and of usage.
func ofLimits() []series {
	return []series{
		one("bandwidth_cap_bytes", gauge, "Download limit in bytes per second, crawl and peer traffic together; 0 is unlimited.", func(r *Reading) float64 { return float64(r.Caps.Bandwidth) }),
		one("bandwidth_used_bytes", gauge, "Bytes received in the last second.", func(r *Reading) float64 { return float64(r.Used.Bandwidth) }),
		one("bandwidth_up_cap_bytes", gauge, "Upload limit in bytes per second; 0 is unlimited.", func(r *Reading) float64 { return float64(r.Caps.BandwidthUp) }),
		one("bandwidth_up_used_bytes", gauge, "Bytes sent in the last second.", func(r *Reading) float64 { return float64(r.Used.BandwidthUp) }),
		one("transferred_day_bytes", gauge, "Bytes received and sent today.", func(r *Reading) float64 { return float64(r.Used.Day) }),
		one("transferred_month_bytes", gauge, "Bytes received and sent this month.", func(r *Reading) float64 { return float64(r.Used.Month) }),
		one("fetchers_cap", gauge, "Maximum concurrent fetches; 0 while fetching is stopped.", func(r *Reading) float64 { return float64(r.Caps.Fetchers) }),
		one("holds", gauge, "Limits that throttle the peer now; apoidea limits lists them.", func(r *Reading) float64 { return float64(r.Holds) }),
		{name: "calls_total", kind: counter, labels: []string{"service", "direction"}, help: "Calls between peers: out for calls made, in for calls answered.", read: func(r *Reading, put put) {
			for name, s := range r.Services {
				put(float64(s.CallsOut), name, "out")
				put(float64(s.CallsIn), name, "in")
			}
		}},
		{name: "call_bytes_total", kind: counter, labels: []string{"service", "direction"}, help: "Bytes of calls between peers, before encryption.", read: func(r *Reading, put put) {
			for name, s := range r.Services {
				put(float64(s.BytesOut), name, "out")
				put(float64(s.BytesIn), name, "in")
			}
		}},
		{name: "line_bytes_total", kind: counter, labels: []string{"with", "direction"}, help: "Bytes received (down) and sent (up), by sites and peers, with encryption; the bandwidth limits apply to these.", read: func(r *Reading, put put) {
			put(float64(r.SitesDown), "sites", "down")
			put(float64(r.SitesUp), "sites", "up")
			put(float64(r.PeersDown), "peers", "down")
			put(float64(r.PeersUp), "peers", "up")
		}},

		{name: "disk_free_bytes", kind: gauge, help: "Free disk space of the data directory; absent where unknown.", read: func(r *Reading, put put) {
			if r.DiskFree >= 0 {
				put(float64(r.DiskFree))
			}
		}},
		one("disk_reserve_bytes", gauge, "Free disk space below which the peer stops.", func(r *Reading) float64 { return float64(r.DiskReserve) }),
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func readState(r *Reading, put put) {
	for _, s := range []string{"joining", "crawling", "idle", "paused", "leaving"} {
		put(truth(r.State == s), s)
	}
}

// valueType returns the Prometheus type of a series that is read.
func (s *series) valueType() prometheus.ValueType {
	if s.kind == counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}
