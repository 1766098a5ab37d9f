package subnets

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/storage/kv"
)

// MaxRecords is how many values are kept here before changes that would add to them are refused,
// some 150 bytes each: a stranger can make up ranges without end.
const MaxRecords = 1 << 20

// ErrFull says that MaxRecords are kept.
var ErrFull = errors.New("no room for more placement records")

// Store is what the peer knows that answers for a part of the ring. Not safe for concurrent use.
type Store struct {
	records kv.Store
	count   int // values kept
	most    int
}

// New returns the state over records, which it counts.
func New(records kv.Store) (*Store, error) {
	s := &Store{records: records, most: MaxRecords}
	var err error
	if s.count, err = kv.Count(records, nil, nil); err != nil {
		err = fmt.Errorf("count placement records: %w", err)
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

// each reads the values whose keys begin with head.
func (s *Store) each(head []byte, parse func(value []byte) error) error {
	var bad error
	err := s.records.Scan(head, next(head), func(_, value []byte) bool {
		bad = parse(value)
		return bad == nil
	})
	if err = errors.Join(err, bad); err != nil {
		return fmt.Errorf("read placement record: %w", err)
	}
	return nil
}

// next is the first key behind those that begin with head, which ends in the byte of a kind.
func next(head []byte) []byte {
	hi := bytes.Clone(head)
	hi[len(hi)-1]++
	return hi
}

// Merge takes changes in; the same ones any number of times, in any order. All of it is one batch;
// wait is never nil. The error is [ErrFull] if there is no room for what is new in them,
// [ipmicra.ErrRecord] if some are ahead of their time ([ipmicra.Changes.Check]), and then nothing
// is taken.
func (s *Store) Merge(now time.Time, c ipmicra.Changes) (wait func() error, err error) {
	return s.merge(now, c, s.most)
}

func (s *Store) merge(now time.Time, c ipmicra.Changes, most int) (wait func() error, err error) {
	if err := c.Check(now); err != nil {
		return kv.OnDisk, err
	}
	m := newMerge(s)
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
		return kv.OnDisk, fmt.Errorf("%w: %d are kept", ErrFull, s.count)
	}
	return m.write()
}
