package domain

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// OptOut is the opt-out of a domain and everything below it, or its withdrawal.
type OptOut struct {
	// Domain is a registrable domain or a name below one.
	Domain string
	// On: opted out. Off: the opt-out was withdrawn.
	On bool
	// Version grows with every change; the later of two copies wins, and of two equal versions the one
	// that has opted out.
	Version uint64
	At      time.Time // time of the change, by the clock of the peer that accepted it
	// Unproved: another owner claims the change to On, and the site was not checked yet. Until then
	// the domain has opted out as before.
	Unproved bool
}

// Out reports whether the domain has opted out.
func (o *OptOut) Out() bool { return o != nil && o.On != o.Unproved }

func (o *OptOut) beats(p *OptOut) bool {
	if p == nil || o.Version != p.Version {
		return p == nil || o.Version > p.Version
	}
	if o.On != p.On {
		return o.On
	}
	return o.At.After(p.At)
}

func (o *OptOut) encode() []byte {
	b := binary.AppendUvarint([]byte{format, kv.Flag(o.On) | kv.Flag(o.Unproved)<<1}, o.Version)
	b = binary.AppendUvarint(b, uint64(max(o.At.UnixMilli(), 0)))
	return append(b, o.Domain...)
}

// maxTime bounds times in records: Unix milliseconds of the year 5138.
const maxTime = 100_000_000_000_000

func decodeOptOut(b []byte) (*OptOut, error) {
	if len(b) < 2 || b[0] != format || b[1] > 3 {
		return nil, fmt.Errorf("%w: opt-out of %d bytes", ErrRecord, len(b))
	}
	f := kv.Fields{Rest: b[2:]}
	o := &OptOut{On: b[1]&1 != 0, Unproved: b[1]&2 != 0, Version: f.Uint(math.MaxUint64), At: time.UnixMilli(int64(f.Uint(maxTime)))} // bounded
	if f.Bad {
		return nil, fmt.Errorf("%w: opt-out version or time", ErrRecord)
	}
	if len(f.Rest) == 0 || len(f.Rest) > maxHost {
		return nil, fmt.Errorf("%w: opt-out name of %d bytes", ErrRecord, len(f.Rest))
	}
	o.Domain = string(f.Rest)
	return o, nil
}

// OptOut returns the opt-out that covers a host, nil if there is none. It may be unproved, see
// NextClaim.
func (s *Store) OptOut(host string) (*OptOut, error) {
	name, d := job.HostName(host), Of(host)
	pos := posOf(d)
	for {
		o, err := s.optOut(pos, name)
		if err != nil || o != nil && (o.On || o.Unproved) {
			return o, err
		}
		_, above, ok := strings.Cut(name, ".")
		if name == d || !ok {
			return nil, nil //nolint:nilnil // none covers it
		}
		name = above
	}
}

func (s *Store) optOut(pos ring.Pos, name string) (*OptOut, error) {
	raw, ok, err := s.records.Get(hashed(prefixOf(pos, kindOptOut), name))
	if err != nil || !ok {
		return nil, err
	}
	return decodeOptOut(raw)
}

// SetOptOut records that a domain has opted out, or has withdrawn its opt-out. Changed reports
// whether that is a change.
func (s *Store) SetOptOut(now time.Time, name string, on bool) (changed bool, wait func() error, err error) {
	if name == "" || len(name) > maxHost || job.HostName(name) != name {
		return false, kv.OnDisk, fmt.Errorf("%w: %.80q is not a domain", ErrRecord, name)
	}
	pos := posOf(Of(name))
	had, err := s.optOut(pos, name)
	if err != nil {
		return false, kv.OnDisk, err
	}
	next := OptOut{Domain: name, On: on, At: now}
	switch {
	case had == nil && !on || had != nil && had.On == on && !had.Unproved:
		return false, kv.OnDisk, nil
	case had != nil:
		next.Version = had.Version + 1
	default:
		prefix := prefixOf(pos, kindOptOut)
		n, err := s.number(prefix, kv.PrefixEnd(prefix))
		if err != nil {
			return false, kv.OnDisk, err
		}
		if n >= MaxOptOuts || s.count >= s.most {
			return false, kv.OnDisk, fmt.Errorf("%w: %d opt-outs below %s", ErrFull, n, Of(name))
		}
		s.count++
	}
	wait, err = s.set(map[string][]byte{string(hashed(prefixOf(pos, kindOptOut), name)): next.encode()})
	return err == nil, wait, err
}

// maxClaims bounds the remembered claims; others are remembered when a host below is asked for.
const maxClaims = 1024

// NextClaim returns an unproved opt-out, or withdrawal of one, that covers a host which was asked
// for, and forgets it; nil: none. SetOptOut ends it after a check at the site.
func (s *Store) NextClaim() (*OptOut, error) {
	for name := range s.claims {
		delete(s.claims, name)
		if o, err := s.optOut(posOf(Of(name)), name); err != nil || o != nil && o.Unproved {
			return o, err
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// Hosts calls fn for the hosts below a registrable domain that were admitted to any job, each at
// least once, until it returns false.
func (s *Store) Hosts(registrable string, fn func(host string) bool) error {
	prefix := prefixOf(posOf(registrable), kindAdmitted)
	return s.records.Scan(prefix, kv.PrefixEnd(prefix), func(_, value []byte) bool {
		return len(value) < 2 || fn(string(value[1:]))
	})
}

// OptOuts calls fn for the opt-outs stored here, until it returns false.
func (s *Store) OptOuts(fn func(*OptOut) bool) error {
	return s.records.Scan(nil, nil, func(key, value []byte) bool {
		if len(key) <= ring.PosSize || key[ring.PosSize] != kindOptOut {
			return true
		}
		o, err := decodeOptOut(value)
		return err != nil || fn(o)
	})
}

// Import merges records of other peers or of replicas as one batch; wait is never nil. A record
// that is malformed, or does not match its key, is rejected with an error that names it, and
// nothing is merged. The record limit does not apply: the records were admitted before, and must be
// stored.
func (s *Store) Import(kvs []kv.Record) (wait func() error, err error) {
	values := make(map[string][]byte)
	for _, rec := range kvs {
		if err := s.merge(rec, values); err != nil {
			return kv.OnDisk, fmt.Errorf("importing domain record %.60x: %w", rec.Key, err)
		}
	}
	if len(values) == 0 {
		return kv.OnDisk, nil
	}
	added := 0
	for key := range values {
		_, ok, err := s.records.Get([]byte(key))
		if err != nil {
			return kv.OnDisk, err
		}
		if !ok {
			added++
		}
	}
	if wait, err = s.set(values); err != nil {
		return kv.OnDisk, err
	}
	s.count += added
	clear(s.counts)
	clear(s.ports)
	return wait, nil
}

func (s *Store) merge(rec kv.Record, values map[string][]byte) error {
	if len(rec.Key) < ring.PosSize+1 {
		return ErrRecord
	}
	switch rest := rec.Key[ring.PosSize+1:]; rec.Key[ring.PosSize] {
	case kindAdmitted:
		if len(rest) < job.IDSize || len(rec.Value) < 2 || len(rec.Value) > maxHost+1 || rec.Value[0] != format {
			return ErrRecord
		}
		host := string(rec.Value[1:])
		if string(hashed(prefixOf(posOf(Of(host)), kindAdmitted, rest[:job.IDSize]...), host)) != string(rec.Key) {
			return fmt.Errorf("%w: does not match its key", ErrRecord)
		}
		values[string(rec.Key)] = rec.Value
	case kindOptOut:
		in, err := decodeOptOut(rec.Value)
		if err != nil {
			return err
		}
		pos := posOf(Of(in.Domain))
		if string(hashed(prefixOf(pos, kindOptOut), in.Domain)) != string(rec.Key) {
			return fmt.Errorf("%w: does not match its key", ErrRecord)
		}
		had, err := s.optOut(pos, in.Domain)
		if err != nil {
			return err
		}
		if twice, ok := values[string(rec.Key)]; ok {
			if had, err = decodeOptOut(twice); err != nil {
				return err
			}
		}
		if in.beats(had) {
			in.Unproved = s.ProveOptOuts && in.On != had.Out()
			values[string(rec.Key)] = in.encode()
		}
	default:
		return ErrRecord
	}
	return nil
}

// Remove deletes the records at positions in [lo, hi) once another peer has them on disk; a zero hi
// is the end of the ring.
func (s *Store) Remove(lo, hi ring.Pos) (wait func() error, err error) {
	from, to := ring.Bounds(lo, hi)
	n, wait, err := kv.Remove(s.records, from, to)
	if err != nil {
		return wait, fmt.Errorf("removing domains: %w", err)
	}
	if n > 0 {
		s.count -= n
		clear(s.counts)
		clear(s.ports)
	}
	return wait, nil
}
