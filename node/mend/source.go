package mend

import (
	"bytes"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// source is what can be read of a database, by keyspaces: all of it, or what was salvaged.
type source struct {
	in    func(space byte) records
	close func() error
}

// records are those of one keyspace; keys lack its byte.
type records interface {
	Scan(lo, hi []byte, fn func(key, value []byte) bool) error
	Get(key []byte) (value []byte, ok bool, err error)
}

// whole is a database that opens; who opened it closes it.
func whole(s *storage.Store) source {
	return source{func(space byte) records { return s.Keyspace(space) }, func() error { return nil }}
}

func salvaged(s *storage.Salvaged) source {
	return source{func(space byte) records { return under{s, space} }, s.Close}
}

// under is a keyspace of what was salvaged.
type under struct {
	src   *storage.Salvaged
	space byte
}

// Scan implements records.
func (u under) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	end := []byte{u.space + 1}
	if hi != nil {
		end = append([]byte{u.space}, hi...)
	}
	return u.src.Scan(append([]byte{u.space}, lo...), end, func(key, value []byte) bool { return fn(key[1:], value) })
}

// Get implements records.
func (u under) Get(key []byte) (value []byte, ok bool, err error) {
	return u.src.Get(append([]byte{u.space}, key...))
}

// each calls fn for all records of a keyspace, with keys and values that stay, until it fails.
func each(r records, fn func(key, value []byte) error) error {
	var failed error
	err := r.Scan(nil, nil, func(key, value []byte) bool {
		failed = fn(bytes.Clone(key), bytes.Clone(value))
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// putter writes records, some thousand at a time.
type putter struct {
	space *storage.Keyspace
	kvs   []kv.Record
	n     int64
}

const putAtOnce = 4096

func (p *putter) put(key, value []byte) error {
	if p.kvs = append(p.kvs, kv.Record{Key: key, Value: value}); len(p.kvs) < putAtOnce {
		return nil
	}
	return p.flush()
}

func (p *putter) flush() error {
	err := p.space.UpdateNoSync(func(b kv.Batch) {
		for _, rec := range p.kvs {
			b.Set(rec.Key, rec.Value)
		}
	})
	p.n += int64(len(p.kvs))
	p.kvs = p.kvs[:0]
	return err
}
