package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
)

// Salvaged is what could be read of a damaged database: the latest version of each key that was
// found in its tables and logs. It lies on disk beside it.
type Salvaged struct {
	dir   string
	db    *pebble.DB
	batch *pebble.Batch
	spans []span
}

// Salvage reads every record that can be read of the database in dir into a new directory at
// scratch, whatever the MANIFEST says, and tells what cannot. It changes nothing in dir. Tables
// that had been replaced and were still there when the process was killed count too; what their
// records say is older, and merges.
func Salvage(dir, scratch string, tell func(Fault)) (s *Salvaged, err error) {
	files, err := listFiles(dir)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(scratch); err != nil {
		return nil, fmt.Errorf("salvage storage: %w", err)
	}
	db, err := pebble.Open(scratch, &pebble.Options{DisableWAL: true, Merger: latest, Logger: silent{}, FormatMajorVersion: pebble.FormatNewest})
	if err != nil {
		return nil, fmt.Errorf("salvage storage: %w", err)
	}
	s = &Salvaged{dir: scratch, db: db, batch: db.NewBatch()}
	for _, name := range files.tables {
		if err := s.table(filepath.Join(dir, name), tell); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	for i, name := range files.logs {
		log := logFile{path: filepath.Join(dir, name), last: i == len(files.logs)-1, fault: tell, batch: s.written}
		if err := log.read(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	err = s.apply(0)
	if err == nil {
		var raw []byte
		var ok bool
		if raw, ok, err = s.Get(append([]byte{KeyspaceFormat}, formatKey...)); ok {
			err = checkStored(raw)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Salvaged) table(path string, tell func(Fault)) error {
	t, err := openTable(path)
	if err != nil {
		return err
	}
	err = t.read(s.put, func(d span) error {
		s.spans = append(s.spans, d)
		return nil
	}, tell)
	return errors.Join(err, t.close())
}

// written takes a batch of a log.
func (s *Salvaged) written(repr []byte) error {
	head, ok := batchrepr.ReadHeader(repr)
	if !ok {
		return nil
	}
	seq := uint64(head.SeqNum)
	return caught(func() error {
		for r := batchrepr.Read(repr); ; {
			kind, key, value, ok, err := r.Next()
			if !ok || err != nil {
				return nil //nolint:nilerr // the batch ends there: its sum was right, so it was written so
			}
			switch kind {
			case pebble.InternalKeyKindLogData:
				continue
			case pebble.InternalKeyKindRangeDelete:
				s.spans = append(s.spans, span{lo: bytes.Clone(key), hi: bytes.Clone(value), seq: seq})
			default:
				if err := s.put(&entry{key: key, value: value, seq: seq, kind: kind}); err != nil {
					return err
				}
			}
			seq++
		}
	})
}

// put notes a version of a key: its sequence number, its kind and its value. An empty key is none
// of a keyspace, and the library panics when it writes one out.
func (s *Salvaged) put(e *entry) error {
	if len(e.key) == 0 {
		return nil
	}
	value := append(binary.BigEndian.AppendUint64(nil, e.seq), byte(e.kind))
	if err := s.batch.Merge(e.key, append(value, e.value...), nil); err != nil {
		return fmt.Errorf("salvage storage: %w", err)
	}
	return s.apply(4 << 20)
}

// latest has the scratch database keep one version of each key, that of the highest sequence
// number; of several with the same, as old versions all have zero, that of the later file.
var latest = &pebble.Merger{Name: "latest", Merge: func(_, value []byte) (pebble.ValueMerger, error) {
	return &version{bytes.Clone(value)}, nil
}}

type version struct{ value []byte }

// MergeNewer implements pebble.ValueMerger.
func (v *version) MergeNewer(value []byte) error { return v.merge(value, 0) }

// MergeOlder implements pebble.ValueMerger.
func (v *version) MergeOlder(value []byte) error { return v.merge(value, 1) }

func (v *version) merge(value []byte, than int) error {
	if bytes.Compare(value[:8], v.value[:8]) >= than {
		v.value = bytes.Clone(value)
	}
	return nil
}

// Finish implements pebble.ValueMerger.
func (v *version) Finish(bool) ([]byte, io.Closer, error) { return v.value, nil, nil }

// apply writes what was gathered once there is that much of it.
func (s *Salvaged) apply(size int) error {
	if s.batch.Len() < size || s.batch.Empty() {
		return nil
	}
	err := errors.Join(s.batch.Commit(pebble.NoSync), s.batch.Close())
	if s.batch = s.db.NewBatch(); err != nil {
		return fmt.Errorf("salvage storage: %w", err)
	}
	return nil
}

// Scan calls fn in key order for the latest values of the keys in [lo, hi), of whatever keyspace,
// until it returns false; key and value are lent. A nil hi is the end.
func (s *Salvaged) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return fmt.Errorf("salvage storage: %w", err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		key, value := it.Key(), it.Value()
		seq, kind := binary.BigEndian.Uint64(value), pebble.InternalKeyKind(value[8])
		if isSet(kind) && !s.deleted(key, seq) && !fn(key, value[9:]) {
			break
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("salvage storage: %w", err)
	}
	return nil
}

// Get returns the latest value of a key.
func (s *Salvaged) Get(key []byte) (value []byte, ok bool, err error) {
	err = s.Scan(key, append(bytes.Clone(key), 0), func(_, v []byte) bool {
		value, ok = bytes.Clone(v), true
		return false
	})
	return value, ok, err
}

func isSet(kind pebble.InternalKeyKind) bool {
	return kind == pebble.InternalKeyKindSet || kind == pebble.InternalKeyKindSetWithDelete
}

func (s *Salvaged) deleted(key []byte, seq uint64) bool {
	return slices.ContainsFunc(s.spans, func(d span) bool {
		return d.seq > seq && bytes.Compare(d.lo, key) <= 0 && bytes.Compare(key, d.hi) < 0
	})
}

// Close removes what was salvaged.
func (s *Salvaged) Close() error {
	return errors.Join(s.batch.Close(), s.db.Close(), os.RemoveAll(s.dir))
}
