// Package metrics exports a peer's metrics to Prometheus: one table of series with stable names
// generates both the registry and docs/metrics.md.
//
// A name is "apoidea_" and the term of status, its JSON and the flags. There are two kinds of
// figures:
//
//   - gauges such as apoidea_pages are what status prints: of the hosts that this peer owns at
//     present. They move with the hosts from peer to peer; their sum over the ring is the
//     crawl's.
//   - counters such as apoidea_requests_total count events since the start of the process; their
//     rates are what a chart shows.
//
// Most values are read from the peer at each scrape; only durations of fetches and lookups and ring
// events are counted as they happen. All methods are safe for concurrent use.
package metrics
