package owner

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/owner/outbox"
)

// Types of an owner's configuration and of the results of a step.
type (
	// Config configures an owner.
	Config = hosts.Config
	// Seen is a filter in front of the URL sets.
	Seen = hosts.Seen
	// Jobs looks up jobs in memory.
	Jobs = hosts.Jobs
	// Ring reports which hosts this peer owns.
	Ring = hosts.Ring
	// OptOuts is the local list of opt-outs.
	OptOuts = hosts.OptOuts
	// Ready is the result of a step.
	Ready = hosts.Ready
	// Place requests a worker for a host.
	Place = hosts.Place
	// Placement is the reply to a [Place].
	Placement = hosts.Placement
	// Offer offers hosts to a worker.
	Offer = hosts.Offer
	// Draw requests a part of a job's budget.
	Draw = hosts.Draw
	// Admission asks whether a registrable domain may have one more host in a job.
	Admission = hosts.Admission
)

// Counters and waits.
type (
	// Counts are the counters of a job.
	Counts = hosts.Counts
	// HostCounts are the counters of a job on a host.
	HostCounts = hosts.HostCounts
	// RuleLeft are the URLs of a host that a trap rule left.
	RuleLeft = hosts.RuleLeft
	// Wait is a reason why URLs wait, and their number.
	Wait = hosts.Wait
	// WaitingHost is a host with waiting URLs.
	WaitingHost = hosts.WaitingHost
	// PutOff counts the deferred URLs, whose next try is beyond a horizon.
	PutOff = hosts.PutOff
)

// Parts of records that other packages read.
type (
	// Final is the outcome of a URL.
	Final = ondisk.Final
	// Epoch grows with every change of a host's owner or worker.
	Epoch = ondisk.Epoch
	// Measurement is the RTT of one candidate to a site.
	Measurement = ondisk.Measurement
	// SetID identifies a URL set.
	SetID = ondisk.SetID
	// OutLink is a link for the owner of another host.
	OutLink = outbox.OutLink
	// Cursor is a position in the iteration over all URLs.
	Cursor = ondisk.Cursor
)

// DefaultConfig returns the default configuration of the peer self.
func DefaultConfig(self string) hosts.Config {
	c := hosts.Config{Self: self}
	c.Fill()
	return c
}
