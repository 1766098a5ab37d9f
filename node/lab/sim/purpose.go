package sim

import "github.com/apoidea/apoidea/dht/dhttest"

// Purpose is what bytes are sent for.
type Purpose = dhttest.Purpose

// The purposes.
const (
	// Upkeep of the ring: stabilize, searches of the own place, probes of the suspect.
	Upkeep = dhttest.Upkeep
	// Lookups of owners.
	Lookups = dhttest.Lookups
)

// The purposes of a crawl.
const (
	// Links to the owners of their hosts.
	Links = dhttest.Others + iota
	// Sessions of workers with owners: grants, reports, heartbeats; and offers.
	Sessions
	// Replication of records, and bringing replicas level.
	Replication
	// Custody: records on their way to another owner.
	Custody
	// Probes of sites, asked of leaf peers.
	Probes
	// Content questions: digests asked of their owners.
	Content

	// Purposes is their number, with those of the ring.
	Purposes
)

// Word is a purpose in one word.
func Word(p Purpose) string {
	return [...]string{"upkeep", "lookups", "links", "sessions", "replication", "custody", "probes", "content"}[p]
}
