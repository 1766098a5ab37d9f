// Package metrics is what a peer tells Prometheus: one table of series with stable names, from
// which both the registry and docs/metrics.md are made, so that the two cannot differ.
//
// A name is the word that status, its JSON and the flags have for the same thing, behind
// "apoidea_". Two kinds of figures must not be mixed up:
//
//   - gauges such as apoidea_pages are what status prints: of the hosts that this peer answers for
//     at present. They move with the hosts from peer to peer; their sum over the ring is the
//     crawl's.
//   - counters such as apoidea_requests_total are what this process did since it was started; their
//     rates are what a chart shows.
//
// Most is read from the peer when it is asked for, so that nothing is kept twice; only what cannot
// be read afterwards (how long exchanges and lookups took, what happened on the ring) is counted as
// it happens. All methods are safe for concurrent use.
package metrics
