package hosts

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dedup"
	"github.com/apoidea/apoidea/dht/ring"
)

// URLSets are the URL sets of one owner: dedup answers from filters and reads the exact sets from
// the owner, which keeps them. They implement [owner.Seen] and are as safe for concurrent
// use as [dedup.Sets].
type URLSets struct {
	sets *dedup.Sets
	from exact
}

// exact reads the sets that the owner keeps.
type exact struct{ owner *owner.Owner }

// NewURLSets returns sets that take about maxBytes of memory. [URLSets.ReadFrom] must follow before
// the first use.
func NewURLSets(kind dedup.Kind, maxBytes int) *URLSets {
	s := new(URLSets)
	s.sets = dedup.NewSets(kind, &s.from, maxBytes)
	return s
}

// ReadFrom names the owner that keeps the exact sets: it takes the sets when it is made, and so
// comes after them.
func (s *URLSets) ReadFrom(o *owner.Owner) { s.from.owner = o }

// ExpectedLoss is that of [dedup.Stats]: URLs that the paper's filter alone is expected to have
// taken for seen.
func (s *URLSets) ExpectedLoss() float64 { return s.sets.Stats().ExpectedLoss }

func setID(s owner.SetID) (id dedup.SetID) {
	copy(id[:16], s.Job[:])
	copy(id[16:], s.Pos[:])
	return id
}

// Test implements [owner.Seen].
func (s *URLSets) Test(set owner.SetID, hash uint64) (owner.Verdict, error) {
	answer, err := s.sets.Test(setID(set), hash)
	switch answer {
	case dedup.No:
		return owner.No, err
	case dedup.Yes:
		return owner.Yes, err
	default:
		return owner.Maybe, err
	}
}

// Add implements [owner.Seen].
func (s *URLSets) Add(set owner.SetID, hash uint64) error { return s.sets.Add(setID(set), hash) }

// Drop implements [owner.Seen].
func (s *URLSets) Drop(set owner.SetID) { s.sets.Drop(setID(set)) }

// Hashes implements [dedup.Loader].
func (e *exact) Hashes(set dedup.SetID, yield func(uint64) bool) error {
	return e.owner.Hashes(owner.SetID{Job: job.ID(set[:16]), Pos: ring.Pos(set[16:])}, yield)
}
