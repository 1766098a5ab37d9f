package ipmicra

import (
	"fmt"
	"time"
)

// aheadMost bounds the clock differences of peers: records with later times are rejected.
const aheadMost = time.Hour

// Check rejects changes with times in the future: an epoch that counts more delegations than one
// for each second since 1970, and future timestamps. Such a record would take precedence over all
// later ones, for ever if its counter were the maximum; so it can be ahead by an hour at most. The
// bound depends on the time alone, and not on the present record, so merging stays independent of
// order; and an accepted record remains acceptable, so records can be handed off. The error is
// [ErrRecord].
func (c *Changes) Check(now time.Time) error {
	for _, s := range c.Subnets {
		if err := s.Check(now); err != nil {
			return err
		}
	}
	for _, x := range c.Indexes {
		if err := x.Check(now); err != nil {
			return err
		}
	}
	return nil
}

// Check rejects a record with times in the future: see [Changes.Check].
func (s *Subnet) Check(now time.Time) error {
	last := now.Add(aheadMost)
	if err := s.Epoch.check(last); err != nil {
		return fmt.Errorf("%w: subnet %v: %w", ErrRecord, s.Prefix, err)
	}
	if s.Since.After(last) {
		return fmt.Errorf("%w: subnet %v: Since %v is in the future", ErrRecord, s.Prefix, s.Since)
	}
	for peer, p := range s.Probes {
		if p.At.After(last) {
			return fmt.Errorf("%w: subnet %v: probe by %.20x at %v, in the future", ErrRecord, s.Prefix, peer, p.At)
		}
	}
	return nil
}

// Check rejects an index with an entry from the future: see [Changes.Check].
func (x *Index) Check(now time.Time) error {
	for i := range x.Entries {
		if err := x.Entries[i].Epoch.check(now.Add(aheadMost)); err != nil {
			return fmt.Errorf("%w: index entry %v: %w", ErrRecord, x.Entries[i].Prefix, err)
		}
	}
	return nil
}

func (e *Epoch) check(last time.Time) error {
	if most := uint64(max(last.Unix(), 1)); e.Counter > most { // not negative
		return fmt.Errorf("epoch %d, want at most %d", e.Counter, most)
	}
	return nil
}
