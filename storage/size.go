package storage

import (
	"context"
	"fmt"
)

// Size returns the approximate bytes on disk of the keys in [lo, hi), by the tables: recent writes
// that are only in the log do not count. A nil lo is the keyspace's first key, a nil hi its end.
func (k *Keyspace) Size(lo, hi []byte) (uint64, error) {
	if err := k.store.enter(); err != nil {
		return 0, err
	}
	defer k.store.running.Done()
	n, err := k.store.db.EstimateDiskUsage(lower(k.prefix, lo), upper(k.prefix, hi))
	if err != nil {
		return 0, fmt.Errorf("size of storage: %w", damage(err))
	}
	return n, nil
}

// Compact compacts all records into the last level and drops overwritten and deleted ones, as the
// database does by itself in time.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.running.Done()
	if err := s.db.Compact(ctx, []byte{0}, []byte{0xff}, true); err != nil {
		return fmt.Errorf("compact storage: %w", damage(err))
	}
	return nil
}
