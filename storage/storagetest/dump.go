package storagetest

import (
	"bufio"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// maxLine bounds a line of a dump: a key and a value, in hex.
const maxLine = 16 << 20

// WriteDump writes every key and value of a store to a file, one a line, both in hex, packed. A
// dump outlives the database's own format: what a version wrote is kept with the tests as one.
func WriteDump(path string, s *storage.Store) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	packed, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	out := bufio.NewWriter(packed)
	for space := range 256 {
		prefix := byte(space)
		err = errors.Join(err, s.Keyspace(prefix).Scan(nil, nil, func(key, value []byte) bool {
			fmt.Fprintf(out, "%02x%x %x\n", prefix, key, value)
			return true
		}))
	}
	return errors.Join(err, out.Flush(), packed.Close(), f.Close())
}

// EachOfDump calls fn for the keys and values of a dump in their order; key and value are fn's.
func EachOfDump(path string, fn func(key, value []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	packed, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("dump %s: %w", path, err)
	}
	lines := bufio.NewScanner(packed)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		left, right, _ := strings.Cut(lines.Text(), " ")
		key, kerr := hex.DecodeString(left)
		value, verr := hex.DecodeString(right)
		if err := errors.Join(kerr, verr); err != nil || len(key) == 0 {
			return fmt.Errorf("dump %s: %.40q: %w", path, left, errors.Join(err, errors.New("no record")))
		}
		if err := fn(key, value); err != nil {
			return err
		}
	}
	return lines.Err()
}

// LoadDump makes the database of a dump in dir.
func LoadDump(path, dir string) error {
	s, err := storage.Open(dir, storage.Options{})
	if err != nil {
		return err
	}
	err = EachOfDump(path, func(key, value []byte) error {
		return s.Keyspace(key[0]).UpdateNoSync(func(b kv.Batch) {
			b.Set(key[1:], value)
		})
	})
	return errors.Join(err, s.Close())
}
