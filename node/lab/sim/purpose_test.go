package sim

import "github.com/apoidea/apoidea/dht/dhtsim"

// Purpose is the reason for traffic.
type Purpose = dhtsim.Purpose

// The purposes of a crawl, beside those of the ring.
const (
	// Links to the owners of their hosts.
	Links = dhtsim.Others + iota
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
