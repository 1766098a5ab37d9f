package owner

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/owner/outbox"
	"github.com/apoidea/apoidea/dht/ring"
)

// Verdict is what the filter in front of a URL set says.
type Verdict uint8

const (
	// No: the URL is not in the set.
	No Verdict = iota
	// Maybe: the store has to be asked.
	Maybe
	// Yes: it is in the set, or, with the paper's filter alone, is taken to be.
	Yes
)

// Seen is a filter in front of the URL sets, bounded in memory. A set that it does not hold it
// loads by [Owner.Hashes].
type Seen interface {
	Test(set ondisk.SetID, hash uint64) (Verdict, error) // says whether a hash is in a set
	Add(set ondisk.SetID, hash uint64) error             // puts a hash into a set
	// Drop forgets a set, because its URLs are gone from here.
	Drop(set ondisk.SetID)
}

// Jobs tells of jobs, from memory. A job that is not known is asked for by [Ready.NeedJobs];
// [Owner.JobChanged] says that the answer may be another now.
type Jobs interface {
	// Job returns a job; ok is false if it is not known.
	Job(id job.ID) (spec *job.Spec, state job.State, ok bool)
}

// Ring says which hosts this peer owns at present, from memory.
type Ring interface {
	Mine(key ring.Key) bool // says whether this peer owns a key
}

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
