package records

import (
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/custody"
	"github.com/apoidea/apoidea/storage/kv"
)

// replicatedOf returns a keyspace as replicas have it.
func replicatedOf(prefix byte) replicatedSpace {
	for _, space := range replicated {
		if space.prefix == prefix {
			return space
		}
	}
	return replicatedSpace{prefix: prefix}
}

// headOf begins the keys of a keyspace before the position.
func headOf(prefix byte) []byte { return replicatedOf(prefix).head }

// ranged reads the records of one space in the order of positions. Scan is of keys without the byte
// of the keyspace; head begins them.
type ranged struct {
	scan func(lo, hi []byte, fn func(key, value []byte) bool) error
	head []byte
}

func (r ranged) key(pos ring.Pos) []byte { return append(append([]byte{}, r.head...), pos[:]...) }

// Next implements custody.Reader.
func (r ranged) Next(from ring.Pos) (pos ring.Pos, ok bool, err error) {
	err = r.scan(r.key(from), kv.PrefixEnd(r.head), func(key, _ []byte) bool {
		if ok = len(key) >= len(r.head)+ring.PosSize; ok {
			pos = ring.Pos(key[len(r.head):])
		}
		return !ok
	})
	return pos, ok, err
}

// Export implements custody.Reader.
func (r ranged) Export(pos ring.Pos, from []byte, fn func(key, value []byte) bool) error {
	lo := r.key(pos)
	hi := kv.PrefixEnd(lo)
	if from != nil {
		lo = from
	}
	return r.scan(lo, hi, fn)
}

// copiesOf finds the records of one space in the copies of other peers.
type copiesOf struct {
	ship   *Replication
	prefix byte
	head   []byte
}

// Sources implements custody.Copies.
func (c copiesOf) Sources() ([]peer.ID, error) {
	names, err := c.ship.copies.Sources()
	ids := make([]peer.ID, len(names))
	for i, name := range names {
		ids[i] = peer.ID(name)
	}
	return ids, err
}

// Of implements custody.Copies.
func (c copiesOf) Of(source peer.ID) custody.Reader {
	return ranged{head: c.head, scan: func(lo, hi []byte, fn func(key, value []byte) bool) error {
		end := []byte{c.prefix + 1}
		if hi != nil {
			end = append([]byte{c.prefix}, hi...)
		}
		return c.ship.copies.Scan(string(source), append([]byte{c.prefix}, lo...), end, func(key, value []byte) bool {
			return fn(key[1:], value)
		})
	}}
}

// bounds are the keys of a copy from one position to another, both included.
func (c copiesOf) bounds(lo, hi ring.Pos) (from, to []byte) {
	r := ranged{head: c.head}
	from = append([]byte{c.prefix}, r.key(lo)...)
	to = append([]byte{c.prefix}, r.key(hi)...)
	return from, kv.PrefixEnd(to)
}
