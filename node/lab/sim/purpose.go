package sim

import "github.com/apoidea/apoidea/dht/dhttest"

// Purpose is the reason for traffic.
type Purpose = dhttest.Purpose

// The purposes.
const (
	// Upkeep is ring maintenance: stabilize, searches for the own position, probes of suspects.
	Upkeep = dhttest.Upkeep
	// Lookups are searches for owners.
	Lookups = dhttest.Lookups
)

// The purposes of a crawl.
const (
	// Links to the owners of their hosts.
	Links = dhttest.Others + iota
	// Sessions of workers with owners: grants, reports, heartbeats; and offers.
	Sessions
	// Replication of records, and range sync.
	Replication
	// Custody: handoff of records to another owner.
	Custody
	// Probes of sites by leaf peers.
	Probes
	// Content: queries for digests at their owners.
	Content

	// Purposes is the number of purposes, including those of the ring.
	Purposes
)

// Word returns the name of a purpose.
func Word(p Purpose) string {
	return [...]string{"upkeep", "lookups", "links", "sessions", "replication", "custody", "probes", "content"}[p]
}
