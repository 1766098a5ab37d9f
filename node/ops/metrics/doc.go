// Package metrics exports the state of a peer to Prometheus. The registry and docs/metrics.md are
// made from one table of series with stable names.
//
// A name is "apoidea_" and the term that status, its JSON and the flags use. There are two kinds of
// figures:
//
//   - Gauges such as apoidea_pages equal those of status and cover the hosts that the peer owns
//     now. They move with a host to its next owner; their sum over the ring is the crawl's.
//   - Counters such as apoidea_requests_total count the work of this process since its start.
//
// Most values are read from the peer at each scrape. Durations and ring events are recorded as they
// happen. All methods are safe for concurrent use.
package metrics
