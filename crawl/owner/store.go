package owner

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/owner/outbox"
)

// What an owner is made with, and what a step comes to.
type (
	// Config holds the knobs of an owner.
	Config = hosts.Config
	// Seen is a filter in front of the URL sets.
	Seen = hosts.Seen
	// Verdict is what that filter says.
	Verdict = hosts.Verdict
	// Jobs tells of jobs, from memory.
	Jobs = hosts.Jobs
	// Ring says which hosts this peer owns.
	Ring = hosts.Ring
	// OptOuts says what sites do not want to be crawled.
	OptOuts = hosts.OptOuts
	// Ready is what a step came to.
	Ready = hosts.Ready
	// Place asks for a worker for a host.
	Place = hosts.Place
	// Placement is the answer.
	Placement = hosts.Placement
	// Offer asks a worker to take hosts.
	Offer = hosts.Offer
	// Draw asks for a part of a job's budget.
	Draw = hosts.Draw
	// Admission asks whether a registrable domain may have one more host in a job.
	Admission = hosts.Admission
)

// What a filter says of a URL.
const (
	No    = hosts.No    // the URL is not in the set
	Maybe = hosts.Maybe // the store has to be asked
	Yes   = hosts.Yes   // it is in the set, or, with the paper's filter alone, is taken to be
)

// What is counted, and what waits.
type (
	// Counts are those of a job.
	Counts = hosts.Counts
	// HostCounts are those of a job on a host.
	HostCounts = hosts.HostCounts
	// Wait is why URLs wait, and how many.
	Wait = hosts.Wait
	// Waiting is a host of those.
	Waiting = hosts.Waiting
	// PutOff are URLs whose next try is beyond a horizon.
	PutOff = hosts.PutOff
)

// What of a record others read as well.
type (
	// Final is how a URL ended.
	Final = ondisk.Final
	// Epoch grows with every change of a host's owner or worker.
	Epoch = ondisk.Epoch
	// Measurement is what one candidate measured to a site.
	Measurement = ondisk.Measurement
	// SetID names one URL set.
	SetID = ondisk.SetID
	// OutLink is a link for the owner of another host.
	OutLink = outbox.OutLink
	// Cursor is a place in the walk over all URLs.
	Cursor = ondisk.Cursor
)

// DefaultConfig returns the defaults for a peer.
func DefaultConfig(self string) hosts.Config {
	c := hosts.Config{Self: self}
	c.Fill()
	return c
}
