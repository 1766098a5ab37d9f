package storage

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/apoidea/apoidea/storage/kv"
)

// Format is the version of the data directory's format: of all records of a database, and of the
// files beside it. Any incompatible change raises it.
const Format = 2

var (
	// ErrOlder reports a database with an earlier format. None of them was released.
	ErrOlder = errors.New("made by a version before 0.1: start with a new --data-dir, or export with that version")
	// ErrNewer reports a database with a later format.
	ErrNewer = errors.New("made by a newer version: use that version")
)

// formatKey is the one key of KeyspaceFormat.
var formatKey = []byte("format")

// CheckFormat rejects a format other than [Format], with ErrOlder or ErrNewer.
func CheckFormat(format uint64) error {
	switch {
	case format < Format:
		return fmt.Errorf("format %d, expected %d: %w", format, Format, ErrOlder)
	case format > Format:
		return fmt.Errorf("format %d, expected %d: %w", format, Format, ErrNewer)
	}
	return nil
}

func checkStored(raw []byte) error {
	format, err := strconv.ParseUint(string(raw), 10, 32)
	if err != nil {
		return fmt.Errorf("%w: the format is %q", ErrDamaged, raw)
	}
	return CheckFormat(format)
}

// settleFormat checks the format, and stores it in a new database.
func (s *Store) settleFormat(readOnly bool) error {
	space := s.Keyspace(KeyspaceFormat)
	raw, ok, err := space.Get(formatKey)
	if err != nil {
		return err
	}
	if ok {
		return checkStored(raw)
	}
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	used := it.First()
	if err := it.Close(); err != nil {
		return err
	}
	switch {
	case used:
		return CheckFormat(0)
	case readOnly:
		return nil
	}
	wait, err := space.Update(func(b kv.Batch) { b.Set(formatKey, strconv.AppendUint(nil, Format, 10)) })
	if err != nil {
		return err
	}
	return wait()
}
