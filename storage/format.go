package storage

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/apoidea/apoidea/storage/kv"
)

// ErrNewer says that a newer version of the program wrote the database.
var ErrNewer = errors.New("the data was made by a newer version of apoidea")

// upgrades bring a database from one format to the next, the first of them from 0, which is what
// those have that say nothing of it. A change of what a keyspace holds that earlier versions would
// not understand, or that must not be met record by record, adds one.
var upgrades = []func(*Store) error{
	func(*Store) error { return nil }, // from here on a database says its format
}

// formatKey is the one key of KeyspaceFormat.
var formatKey = []byte("format")

// settleFormat reads the format, and brings the database to that of this version unless it is only
// read. What an interrupted upgrade has left is upgraded again.
func (s *Store) settleFormat(readOnly bool) error {
	space := s.Keyspace(KeyspaceFormat)
	raw, ok, err := space.Get(formatKey)
	if err != nil {
		return err
	}
	format := uint64(0)
	if ok {
		if format, err = strconv.ParseUint(string(raw), 10, 32); err != nil {
			return fmt.Errorf("%w: its format is written as %q", ErrDamaged, raw)
		}
	}
	latest := uint64(len(upgrades))
	switch {
	case format > latest:
		return fmt.Errorf("%w: it has format %d, and this version reads up to %d; install that version", ErrNewer, format, latest)
	case format == latest || readOnly:
		return nil
	}
	for _, upgrade := range upgrades[format:] {
		if err := upgrade(s); err != nil {
			return fmt.Errorf("upgrade from format %d: %w", format, err)
		}
		format++
		wait, err := space.Update(func(b kv.Batch) { b.Set(formatKey, strconv.AppendUint(nil, format, 10)) })
		if err != nil {
			return err
		}
		if err := wait(); err != nil {
			return err
		}
	}
	return nil
}
