package metrics

import (
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
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

// series is one row: a name without the namespace, what it is in one sentence, and where its value
// comes from.
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

// ofPeer tells of what runs, and what it does at present.
func ofPeer() []series {
	return []series{
		{name: "build_info", kind: gauge, labels: []string{"version", "go_version", "network", "profile"}, help: "Always 1; which build runs, and as what.", read: func(r *Reading, put put) {
			put(1, r.Version, runtime.Version(), r.Network, r.Profile)
		}},
		{name: "state", kind: gauge, labels: []string{"state"}, help: "1 for what the peer is doing at present, 0 for the other states.", read: readState},
	}
}

// ofWorker tells of what this peer fetches, whoever owns it.
func ofWorker() []series {
	return []series{
		one("requests_total", counter, "Exchanges with sites that were begun, robots.txt included.", func(r *Reading) float64 { return float64(r.Requests) }),
		one("wire_bytes_total", counter, "Bytes that answered requests took from the network, heads included, TLS handshakes not.", func(r *Reading) float64 { return float64(r.WireBytes) }),
		one("body_bytes_total", counter, "Bytes of the bodies of pages and duplicates, decoded.", func(r *Reading) float64 { return float64(r.BodyBytes) }),
		{name: "outcomes_total", kind: counter, labels: []string{"outcome"}, help: "URLs that came to an outcome in this process.", read: func(r *Reading, put put) {
			for outcome, n := range r.Outcomes {
				put(float64(n), outcome)
			}
		}},
		{name: nameFetch, kind: histogram, labels: []string{"result"}, help: "How long exchanges with sites took, from the request to the last byte: answered, whatever the status, or failed."},
		one("leases_lapsed_total", counter, "Leases on hosts that ended without being given back.", func(r *Reading) float64 { return float64(r.Lapsed) }),
		one("reports_dropped_total", counter, "Outcomes forgotten because their owner did not answer; their URLs are fetched again.", func(r *Reading) float64 { return float64(r.Dropped) }),
		one("incomplete_total", counter, "Answers that were archived without their end: the connection ended early, or they did not decode.", func(r *Reading) float64 { return float64(r.Incomplete) }),
		one("spilled_total", counter, "Pages that waited on disk to be processed.", func(r *Reading) float64 { return float64(r.Spilled) }),
		one("stalled", gauge, "1 while nothing moves in the peer although there is work; apoidea status says what.", func(r *Reading) float64 { return truth(r.Stalled != nil) }),
		one("stalls_total", counter, "How often that was so.", func(r *Reading) float64 { return float64(r.Stalls) }),
		one("in_flight", gauge, "Exchanges with sites under way.", func(r *Reading) float64 { return float64(r.InFlight) }),
		one("processing", gauge, "Pages between exchange and report.", func(r *Reading) float64 { return float64(r.Processing) }),
		one("unreported", gauge, "Outcomes on their way to the owners of their hosts.", func(r *Reading) float64 { return float64(r.Unreported) }),
		one("hosts_held", gauge, "Hosts that this peer holds a lease on, whoever owns them.", func(r *Reading) float64 { return float64(r.HostsHeld) }),
		one("window", gauge, "URLs of those hosts that are to be fetched next.", func(r *Reading) float64 { return float64(r.Window) }),
	}
}

// ofOwner tells of the hosts that this peer owns.
func ofOwner() []series {
	return []series{
		one("pages", gauge, "New documents of hosts that this peer owns.", func(r *Reading) float64 { return float64(r.Pages) }),
		one("bytes", gauge, "Bytes of the documents of hosts that this peer owns, decoded.", func(r *Reading) float64 { return float64(r.Bytes) }),
		one("noindex", gauge, "Documents of hosts that this peer owns that ask not to be indexed, and are not archived.", func(r *Reading) float64 { return float64(r.NoIndex) }),
		one("duplicates", gauge, "Documents of hosts that this peer owns whose content was known.", func(r *Reading) float64 { return float64(r.Duplicates) }),
		one("redirects", gauge, "Redirects on hosts that this peer owns.", func(r *Reading) float64 { return float64(r.Redirects) }),
		one("errors", gauge, "URLs of hosts that this peer owns which came to an error.", func(r *Reading) float64 { return float64(r.Errors) }),
		one("robots_denied", gauge, "URLs of hosts that this peer owns which robots.txt forbids or keeps out of reach.", func(r *Reading) float64 { return float64(r.RobotsDenied) }),
		one("traps", gauge, "URLs of hosts that this peer owns which were left unasked, as their sites make up pages without end.", func(r *Reading) float64 { return float64(r.Traps) }),
		one("out_of_budget", gauge, "URLs of hosts that this peer owns which were left unasked, as they were beyond a budget.", func(r *Reading) float64 { return float64(r.OutOfBudget) }),
		one("links_cut", gauge, "Links on hosts that this peer owns which were not taken, as they led to more new hosts than a page may bring.", func(r *Reading) float64 { return float64(r.LinksCut) }),
		one("refetched", gauge, "URLs of hosts that this peer owns which were fetched more than once.", func(r *Reading) float64 { return float64(r.Refetched) }),
		one("links_left_out", gauge, "Links of pages of hosts that this peer owns which were beyond the bounds of what is taken of one page.", func(r *Reading) float64 { return float64(r.LinksLeftOut) }),
		one("urls_seen", gauge, "URLs in the sets of hosts that this peer owns.", func(r *Reading) float64 { return float64(r.URLsSeen) }),
		one("urls_pending", gauge, "URLs that wait for a worker.", func(r *Reading) float64 { return float64(r.URLsPending) }),
		one("urls_leased", gauge, "URLs that a worker has.", func(r *Reading) float64 { return float64(r.URLsLeased) }),
		one("urls_waiting", gauge, "Pending URLs that wait for another try.", func(r *Reading) float64 { return float64(r.URLsWaiting) }),
		one("outbox", gauge, "Links that their owners have not acknowledged yet.", func(r *Reading) float64 { return float64(r.Outbox) }),
		one("hosts_owned", gauge, "Hosts that this peer answers for.", func(r *Reading) float64 { return float64(r.HostsOwned) }),
		one("owner_longest_step_seconds", gauge, "The longest step of the owner of hosts since the start: for so long a worker, a link or a question may have waited, the disk left out.", func(r *Reading) float64 { return r.LongestStepMS / 1000 }),
		one("hosts_leased", gauge, "Hosts of these that a worker has.", func(r *Reading) float64 { return float64(r.HostsLeased) }),
	}
}

// ofRing tells of this peer's place in the ring, and copies of its records.
func ofRing() []series {
	return []series{
		one("ring_members", gauge, "Members of the ring as this peer estimates them.", func(r *Reading) float64 { return float64(r.Ring.Members) }),
		one("ring_stable", gauge, "1 if the neighbours have not changed of late.", func(r *Reading) float64 { return truth(r.Ring.Stable) }),
		one("ring_arc_share", gauge, "Part of the ring that this peer answers for, 0 to 1.", func(r *Reading) float64 { return r.ArcShare }),
		one("ring_leaves", gauge, "Peers in the leaf set.", func(r *Reading) float64 { return float64(len(r.Leaves)) }),
		one("ring_attached", gauge, "Workers behind routers that are attached to this peer.", func(r *Reading) float64 { return float64(len(r.Attached)) }),
		one("ring_moving", gauge, "1 while records are on their way to or from this peer.", func(r *Reading) float64 { return truth(r.Moving) }),
		{name: nameEvents, kind: counter, labels: []string{"event"}, help: "What happened to this peer's place in the ring: join, leave, dead, suspect, arc, state."},
		{name: nameLookup, kind: histogram, help: "How long it took to find the owner of a key, where it was not known."},
		{name: nameHops, kind: histogram, help: "Calls that such a lookup took."},
		one("connections", gauge, "Connections to other peers.", func(r *Reading) float64 { return float64(r.Connections) }),
		one("replicas", gauge, "Copies of this peer's records that other peers are to keep.", func(r *Reading) float64 { return float64(r.Replicas) }),
		one("replicas_level", gauge, "Copies of these that have everything.", func(r *Reading) float64 { return float64(r.ReplicasLevel) }),
	}
}

// ofLimits tells of what the peer may use, and uses.
func ofLimits() []series {
	return []series{
		one("bandwidth_cap_bytes", gauge, "Bytes a second that may come, from sites and peers together; 0 is no cap.", func(r *Reading) float64 { return float64(r.Caps.Bandwidth) }),
		one("bandwidth_used_bytes", gauge, "Bytes that came in the last second.", func(r *Reading) float64 { return float64(r.Used.Bandwidth) }),
		one("bandwidth_up_cap_bytes", gauge, "Bytes a second that may go; 0 is no cap.", func(r *Reading) float64 { return float64(r.Caps.BandwidthUp) }),
		one("bandwidth_up_used_bytes", gauge, "Bytes that went in the last second.", func(r *Reading) float64 { return float64(r.Used.BandwidthUp) }),
		one("transferred_day_bytes", gauge, "Bytes that came and went today.", func(r *Reading) float64 { return float64(r.Used.Day) }),
		one("transferred_month_bytes", gauge, "Bytes that came and went this month.", func(r *Reading) float64 { return float64(r.Used.Month) }),
		one("fetchers_cap", gauge, "Exchanges that may be under way at once; 0 while nothing is fetched.", func(r *Reading) float64 { return float64(r.Caps.Fetchers) }),
		one("holds", gauge, "Rules that hold something back at present; apoidea limits names them.", func(r *Reading) float64 { return float64(r.Holds) }),
		{name: "calls_total", kind: counter, labels: []string{"service", "direction"}, help: "Calls between peers: out those made, in those answered.", read: func(r *Reading, put put) {
			for name, s := range r.Services {
				put(float64(s.CallsOut), name, "out")
				put(float64(s.CallsIn), name, "in")
			}
		}},
		{name: "call_bytes_total", kind: counter, labels: []string{"service", "direction"}, help: "Bytes of these calls, before encryption.", read: func(r *Reading, put put) {
			for name, s := range r.Services {
				put(float64(s.BytesOut), name, "out")
				put(float64(s.BytesIn), name, "in")
			}
		}},
		{name: "peer_bounds_total", kind: counter, labels: []string{"bound"}, help: "How often other peers met a bound on what they may use of this one: a stream was reset, or a call told busy.", read: func(r *Reading, put put) {
			for name, n := range r.Bounds {
				put(float64(n), name)
			}
		}},
		{name: "line_bytes_total", kind: counter, labels: []string{"with", "direction"}, help: "Bytes that came down and went up, with sites and with peers, encryption included: what the caps on bandwidth are held against.", read: func(r *Reading, put put) {
			put(float64(r.SitesDown), "sites", "down")
			put(float64(r.SitesUp), "sites", "up")
			put(float64(r.PeersDown), "peers", "down")
			put(float64(r.PeersUp), "peers", "up")
		}},

		{name: "disk_free_bytes", kind: gauge, help: "Free space where the data directory is; absent where it cannot be told.", read: func(r *Reading, put put) {
			if r.DiskFree >= 0 {
				put(float64(r.DiskFree))
			}
		}},
		one("disk_reserve_bytes", gauge, "Free space at which the peer stops.", func(r *Reading) float64 { return float64(r.DiskReserve) }),
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// states are the words of status.
func states() []string { return []string{"joining", "crawling", "idle", "paused", "leaving"} }

func readState(r *Reading, put put) {
	for _, s := range states() {
		put(truth(r.State == s), s)
	}
}

// valueType is Prometheus' word for a kind that is read.
func (s *series) valueType() prometheus.ValueType {
	if s.kind == counter {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}
