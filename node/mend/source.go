package mend

import (
	"bytes"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// source is what can be read of a database: all of it, or what was salvaged. Keys have the byte of their keyspace.
type source interface {
	Scan(lo, hi []byte, fn func(key, value []byte) bool) error
	Get(key []byte) (value []byte, ok bool, err error)
	Close() error
}

// whole is a database that opens.
type whole struct{ *storage.Store }

// Scan reads within one keyspace, that of lo.
func (w whole) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	space := w.Keyspace(lo[0])
	var end []byte
	if len(hi) > 0 && hi[0] == lo[0] {
		end = hi[1:]
	}
	return space.Scan(lo[1:], end, func(key, value []byte) bool { return fn(append([]byte{lo[0]}, key...), value) })
}

// Get implements source.
func (w whole) Get(key []byte) (value []byte, ok bool, err error) {
	return w.Keyspace(key[0]).Get(key[1:])
}

// under is the part of a source in one keyspace; keys lack its byte.
type under struct {
	src   source
	space byte
}

// Scan implements ondisk.Scanner.
func (u under) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	end := []byte{u.space + 1}
	if hi != nil {
		end = append([]byte{u.space}, hi...)
	}
	return u.src.Scan(append([]byte{u.space}, lo...), end, func(key, value []byte) bool { return fn(key[1:], value) })
}

// Get returns the value of a key.
func (u under) Get(key []byte) (value []byte, ok bool, err error) {
	return u.src.Get(append([]byte{u.space}, key...))
}

// each calls fn for all records of the keyspace, with keys and values that stay, until it fails.
func (u under) each(fn func(key, value []byte) error) error {
	var failed error
	err := u.Scan(nil, nil, func(key, value []byte) bool {
		failed = fn(bytes.Clone(key), bytes.Clone(value))
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// put writes records, some thousand at a time.
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
