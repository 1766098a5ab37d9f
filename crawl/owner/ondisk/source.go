package ondisk

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/dht/ring"
)

// A source is stored once for each host that its page led to; the URLs have its hash. The key has
// the hash of the whole value, so two records of one key are equal.

// EncodeSource returns the encoded record.
func EncodeSource(s *link.Source) []byte {
	e := newEnc(len(s.URL) + len(s.Path) + len(s.Seed) + 8)
	e.byte(byte(s.Role))
	e.str(s.Path)
	e.str(s.Seed)
	e.str(s.URL)
	return e
}

// DecodeSource decodes the record of a source.
func DecodeSource(b []byte) (link.Source, error) {
	d := newDec(b)
	s := link.Source{Role: link.Role(d.Uint(uint64(link.RoleRedirect))), Path: d.str(link.MaxPath), Seed: d.str(link.MaxSource), URL: d.str(link.MaxSource)}
	if !s.Valid() {
		d.Fail()
	}
	return s, d.end()
}

// SourceHash returns the hash of an encoded source in a job; it is never 0.
func SourceHash(id job.ID, value []byte) uint64 { return max(link.Hash(id, string(value)), 1) }

// Sources reads records of sources, and remembers the last one, since most neighbors share theirs.
type Sources struct {
	get  func(key []byte) (value []byte, ok bool, err error)
	pos  ring.Pos
	job  job.ID
	hash uint64
	last *link.Source
}

// NewSources returns a reader of the records that get returns.
func NewSources(get func(key []byte) (value []byte, ok bool, err error)) *Sources {
	return &Sources{get: get}
}

// Of returns the source with a hash of URLs of the host at a position: nil if the hash is 0, and an
// empty one if the record is corrupt, or has not arrived here.
func (s *Sources) Of(pos ring.Pos, id job.ID, hash uint64) *link.Source {
	switch {
	case hash == 0:
		return nil
	case hash == s.hash && pos == s.pos && id == s.job:
		return s.last
	}
	raw, _, _ := s.get(SourceKey(pos, id, hash)) // the other records show errors of the store
	from, err := DecodeSource(raw)
	if err != nil {
		return &link.Source{}
	}
	s.pos, s.job, s.hash, s.last = pos, id, hash, &from
	return s.last
}
