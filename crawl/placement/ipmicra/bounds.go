package ipmicra

import (
	"fmt"
	"time"
)

// aheadMost is by how much the clocks of peers may differ: what a record says of later times is not
// believed.
const aheadMost = time.Hour

// Check refuses changes that are ahead of their time: an epoch that counts more delegations than
// one for each second since 1970, and moments that are yet to come. Such a record would win over
// all that follow it, for ever if its counter were the last there is; so it can be ahead for an
// hour at most. That the bound depends on the time alone, and not on the record that is there,
// leaves merging what it is, in any order; and what was let in once is let in ever after, so
// records move freely. The error is [ErrRecord].
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

// Check refuses a record that is ahead of its time: see [Changes.Check].
func (s *Subnet) Check(now time.Time) error {
	last := now.Add(aheadMost)
	if err := s.Epoch.check(last); err != nil {
		return fmt.Errorf("%w: subnet %v: %w", ErrRecord, s.Prefix, err)
	}
	if s.Since.After(last) {
		return fmt.Errorf("%w: subnet %v: to be delegated anew since %v, which is yet to come", ErrRecord, s.Prefix, s.Since)
	}
	for peer, p := range s.Probes {
		if p.At.After(last) {
			return fmt.Errorf("%w: subnet %v: probe by %.20x at %v, which is yet to come", ErrRecord, s.Prefix, peer, p.At)
		}
	}
	return nil
}

// Check refuses an index with an entry that is ahead of its time: see [Changes.Check].
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
