package domain

import (
	"encoding/binary"
	"fmt"

	"github.com/apoidea/apoidea/crawl/farm"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

const (
	// saveKin is the number of pages after which the link farm state of a domain is written; at most
	// so many are lost in a crash.
	saveKin = 32
	// maxKin bounds the link farm states in memory, some 3 KB each.
	maxKin = 1 << 10
)

// kin is the link farm state of a domain in a job.
type kin struct {
	state *farm.Farm
	saved uint64 // pages seen at the last write
}

// Tell records the reports on hosts of a registrable domain in a job. Wait is never nil.
func (s *Store) Tell(id job.ID, registrable string, list []farm.Said) (wait func() error, err error) {
	if s.novelty == 0 || len(list) == 0 {
		return kv.OnDisk, nil
	}
	if registrable == "" || len(registrable) > maxHost || Of(registrable) != registrable {
		return kv.OnDisk, fmt.Errorf("%w: %.80q is not a registrable domain", ErrRecord, registrable)
	}
	key := countKey{posOf(registrable), id}
	k, err := s.kinOf(key)
	if err != nil {
		return kv.OnDisk, err
	}
	if k == nil {
		k = &kin{state: new(farm.Farm)}
		s.keepKin(key, k)
	}
	full := k.state.Full(s.novelty)
	for _, said := range list {
		k.state.Observe(said, s.novelty)
	}
	if k.state.Seen() < k.saved+saveKin && k.state.Full(s.novelty) == full {
		return kv.OnDisk, nil
	}
	if k.saved == 0 {
		if s.count >= s.most {
			return kv.OnDisk, nil // held by this process only
		}
		s.count++
	}
	wait, err = s.set(map[string][]byte{string(kinKey(key)): encodeKin(registrable, k.state)})
	if err == nil {
		k.saved = k.state.Seen()
	}
	return wait, err
}

// Stale reports whether a registrable domain gets no more hosts in a job, since the last ones had
// no new content.
func (s *Store) Stale(id job.ID, registrable string) (bool, error) {
	return s.stale(countKey{posOf(registrable), id})
}

// stale reports whether a domain gets no more hosts in a job, since the last ones had no new
// content.
func (s *Store) stale(key countKey) (bool, error) {
	if s.novelty == 0 {
		return false, nil
	}
	k, err := s.kinOf(key)
	return k != nil && k.state.Full(s.novelty), err
}

// kinOf returns the link farm state of a domain, nil if there is none.
func (s *Store) kinOf(key countKey) (*kin, error) {
	if k := s.kins[key]; k != nil {
		return k, nil
	}
	raw, ok, err := s.records.Get(kinKey(key))
	if err != nil || !ok {
		return nil, err
	}
	_, state, err := decodeKin(raw)
	if err != nil {
		return nil, err
	}
	k := &kin{state: state, saved: state.Seen()}
	s.keepKin(key, k)
	return k, nil
}

// keepKin caches the link farm state of a domain, and evicts others if there are many.
func (s *Store) keepKin(key countKey, k *kin) {
	if len(s.kins) >= maxKin {
		for other := range s.kins {
			if delete(s.kins, other); len(s.kins) <= maxKin/2 {
				break
			}
		}
	}
	s.kins[key] = k
}

func kinKey(key countKey) []byte { return prefixOf(key.pos, kindKin, key.id[:]...) }

func encodeKin(registrable string, k *farm.Farm) []byte {
	b := binary.AppendUvarint([]byte{format}, uint64(len(registrable)))
	return k.Append(append(b, registrable...))
}

func decodeKin(b []byte) (registrable string, k *farm.Farm, err error) {
	if len(b) < 2 || b[0] != format || len(b) > 1+2+maxHost+farm.MaxBytes {
		return "", nil, fmt.Errorf("%w: link farm state of %d bytes", ErrRecord, len(b))
	}
	f := kv.Fields{Rest: b[1:]}
	if registrable = string(f.Bytes(maxHost)); registrable == "" {
		return "", nil, fmt.Errorf("%w: domain name", ErrRecord)
	}
	if k, err = farm.Decode(f.Rest); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	return registrable, k, nil
}

// mergeKin adopts a peer's link farm state of a domain if it covers more pages.
func (s *Store) mergeKin(rec kv.Record, values map[string][]byte) error {
	registrable, in, err := decodeKin(rec.Value)
	if err != nil {
		return err
	}
	rest := rec.Key[ring.PosSize+1:]
	if len(rest) != job.IDSize || Of(registrable) != registrable || ring.Pos(rec.Key) != posOf(registrable) {
		return fmt.Errorf("%w: does not match its key", ErrRecord)
	}
	key := countKey{ring.Pos(rec.Key), job.ID(rest)}
	had := values[string(rec.Key)]
	if had == nil {
		k, err := s.kinOf(key)
		if err != nil {
			return err
		}
		if k != nil {
			had = encodeKin(registrable, k.state)
		}
	}
	if had != nil {
		_, old, err := decodeKin(had)
		if err != nil {
			return err
		}
		if !farm.Later(in.Append(nil), old.Append(nil)) {
			return nil
		}
	}
	values[string(rec.Key)] = rec.Value
	return nil
}
