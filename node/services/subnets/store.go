package subnets

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/storage/kv"
)

// MaxRecords is the number of values, some 150 bytes each, at which changes that add to them are
// rejected: untrusted peers can invent ranges without end.
const MaxRecords = 1 << 20

// ErrFull is returned if MaxRecords are stored.
var ErrFull = errors.New("too many placement records")

// Store holds the records of a part of the ring. Not safe for concurrent use.
type Store struct {
	records kv.Store
	count   int // stored values
	most    int
}

// New returns a Store of records, which it counts.
func New(records kv.Store) (*Store, error) {
	s := &Store{records: records, most: MaxRecords}
	var err error
	if s.count, err = kv.Count(records, nil, nil); err != nil {
		err = fmt.Errorf("counting placement records: %w", err)
	}
	return s, err
}

// Get returns the encoding of a record, nil if there is none.
func (s *Store) Get(k ipmicra.Key) ([]byte, error) {
	if k.Kind == ipmicra.KindSubnet {
		record, err := s.subnet(k)
		if err != nil || record == nil {
			return nil, err
		}
		return record.AppendBinary(nil)
	}
	x, err := s.index(k)
	if err != nil || len(x.Entries) == 0 {
		return nil, err
	}
	return x.AppendBinary(nil)
}

// subnet reads the record of a subnet, nil if there is none.
func (s *Store) subnet(k ipmicra.Key) (record *ipmicra.Subnet, err error) {
	err = s.each(headOf(k), func(value []byte) (err error) {
		record, err = ipmicra.ParseSubnet(value)
		return err
	})
	return record, err
}

// index reads an index.
func (s *Store) index(k ipmicra.Key) (*ipmicra.Index, error) {
	x := &ipmicra.Index{Key: k}
	err := s.each(headOf(k), func(value []byte) error {
		one, err := ipmicra.ParseIndex(value)
		if err != nil || len(x.Entries) >= ipmicra.MaxEntries {
			return err
		}
		x.Entries = append(x.Entries, one.Entries...)
		return nil
	})
	return x, err
}

// each reads the values whose keys have the prefix head.
func (s *Store) each(head []byte, parse func(value []byte) error) error {
	var bad error
	err := s.records.Scan(head, next(head), func(_, value []byte) bool {
		bad = parse(value)
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return fmt.Errorf("reading placement record: %w", err)
	}
	return nil
}

// next returns the first key behind those with the prefix head, which ends in the byte of a kind.
func next(head []byte) []byte {
	hi := bytes.Clone(head)
	hi[len(hi)-1]++
	return hi
}

// Merge merges changes; it is idempotent and independent of order. All of it is one batch; wait is
// never nil. The error is [ErrFull] if new records exceed the limit, and [ipmicra.ErrRecord] if
// some have a time too far in the future ([ipmicra.Changes.Check]); then nothing is merged.
func (s *Store) Merge(now time.Time, c ipmicra.Changes) (wait func() error, err error) {
	return s.merge(now, c, s.most)
}

func (s *Store) merge(now time.Time, c ipmicra.Changes, most int) (wait func() error, err error) {
	if err := c.Check(now); err != nil {
		return kv.OnDisk, err
	}
	m := &merge{store: s, sets: make(map[string][]byte), subnets: make(map[ipmicra.Key]*merging[ipmicra.Subnet]), indexes: make(map[ipmicra.Key]*merging[ipmicra.Index])}
	for _, record := range c.Subnets {
		if err := m.subnet(record); err != nil {
			return kv.OnDisk, err
		}
	}
	for _, x := range c.Indexes {
		if err := m.index(x); err != nil {
			return kv.OnDisk, err
		}
	}
	if err := m.diff(); err != nil {
		return kv.OnDisk, err
	}
	if m.added > 0 && s.count+m.added > most {
		return kv.OnDisk, fmt.Errorf("%w: %d", ErrFull, s.count)
	}
	return m.write()
}
