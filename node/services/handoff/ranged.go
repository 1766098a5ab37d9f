package handoff

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Ranged reads the records of one space in the order of positions.
type Ranged struct {
	// Scan iterates over keys without the byte of the keyspace.
	Scan func(lo, hi []byte, fn func(key, value []byte) bool) error
	Head []byte // key prefix of records that move, before the position
}

func (r Ranged) key(pos ring.Pos) []byte { return append(slices.Clone(r.Head), pos[:]...) }

// Next implements Reader.
func (r Ranged) Next(from ring.Pos) (pos ring.Pos, ok bool, err error) {
	err = r.Scan(r.key(from), kv.PrefixEnd(r.Head), func(key, _ []byte) bool {
		if ok = len(key) >= len(r.Head)+ring.PosSize; ok {
			pos = ring.Pos(key[len(r.Head):])
		}
		return !ok
	})
	return pos, ok, err
}

// Export implements Reader.
func (r Ranged) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	lo := r.key(pos)
	hi := kv.PrefixEnd(lo)
	if from != nil {
		lo = from
	}
	return r.Scan(lo, hi, fn)
}

// CopiesOf gives access to the records of one space in the copies of other peers.
type CopiesOf struct {
	// From has all copies, with the byte of the keyspace before the keys, as replica.Copies.
	From interface {
		Sources() (names []string, err error)
		Scan(source string, lo, hi []byte, fn func(key, value []byte) bool) error
	}
	Prefix byte   // of the keyspace
	Head   []byte // as that of Ranged
}

// Sources implements Copies.
func (c CopiesOf) Sources() ([]peer.ID, error) {
	names, err := c.From.Sources()
	ids := make([]peer.ID, len(names))
	for i, name := range names {
		ids[i] = peer.ID(name)
	}
	return ids, err
}

// Of implements Copies.
func (c CopiesOf) Of(source peer.ID) Reader {
	return Ranged{Head: c.Head, Scan: func(lo, hi []byte, fn func(key, value []byte) bool) error {
		end := []byte{c.Prefix + 1}
		if hi != nil {
			end = append([]byte{c.Prefix}, hi...)
		}
		return c.From.Scan(string(source), append([]byte{c.Prefix}, lo...), end, func(key, value []byte) bool {
			return fn(key[1:], value)
		})
	}}
}

// Bounds returns the keys of a copy from one position to another, both included.
func (c CopiesOf) Bounds(lo, hi ring.Pos) (from, to []byte) {
	r := Ranged{Head: append([]byte{c.Prefix}, c.Head...)}
	return r.key(lo), kv.PrefixEnd(r.key(hi))
}
