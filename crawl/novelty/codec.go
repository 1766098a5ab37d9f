package novelty

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"

	"github.com/apoidea/apoidea/storage/kv"
)

var errFormat = errors.New("novelty: malformed")

// maxScore bounds what is read.
const maxScore = strongWeight * MaxPages

// MaxBytes is the most that Append of a State writes.
const MaxBytes = 128 + maxLeft + 2*6*maxPrints + 40*maxParts

// Append writes a state.
func (s *State) Append(b []byte) []byte {
	for _, n := range []uint64{s.seen, s.empties, uint64(s.since), uint64(s.mazed), uint64(s.probed), uint64(s.least), uint64(s.leastBefore), s.brought, s.grown, uint64(s.lists)} {
		b = binary.AppendUvarint(b, n)
	}
	for _, list := range []prints{s.words, s.all} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, p := range list {
			b = append(binary.LittleEndian.AppendUint32(b, p.bits), p.hits, bit(p.copied))
		}
	}
	b = append(binary.AppendUvarint(b, uint64(len(s.left))), s.left...)
	b = binary.AppendUvarint(s.rest.append(b, s.seen), uint64(len(s.parts)))
	for i := range s.parts {
		b = s.parts[i].append(b, s.seen)
	}
	return b
}

func (g *part) append(b []byte, seen uint64) []byte {
	b = binary.LittleEndian.AppendUint32(b, g.key)
	for _, n := range []uint64{uint64(g.empty), uint64(g.maze), uint64(g.seen), uint64(g.news), seen - min(g.last, seen)} {
		b = binary.AppendUvarint(b, n)
	}
	return append(binary.LittleEndian.AppendUint32(b, g.to), g.fresh, g.grows, bit(g.wide))
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// Decode reads what Append wrote.
func Decode(b []byte) (*State, error) {
	d := decoder{kv.Fields{Rest: b}}
	s := &State{
		seen: d.Uint(1 << 48), empties: d.Uint(1 << 48), since: uint8(d.Uint(nearby + 1)), mazed: uint8(d.Uint(nearby + 1)), probed: uint8(d.Uint(maxProbes)),
		least: uint32(d.Uint(1<<32 - 1)), leastBefore: uint32(d.Uint(1<<32 - 1)),
		brought: d.Uint(1 << 48), grown: d.Uint(1 << 48), lists: uint32(d.Uint(maxScore)),
	}
	s.words, s.all = d.prints(), d.prints()
	s.left = string(d.Take(int(d.Uint(maxLeft)))) // bounded
	s.rest = d.part(s.seen)
	for range d.Uint(maxParts) {
		s.parts = append(s.parts, d.part(s.seen))
	}
	if !d.Whole() {
		return nil, errFormat
	}
	return s, nil
}

// Later says whether one encoded state knows more than another: it is the one that is kept of two,
// in whatever order they come.
func Later(a, b []byte) bool {
	s, err := Decode(a)
	if err != nil {
		return false
	}
	t, err := Decode(b)
	if err != nil {
		return true
	}
	return cmp.Or(cmp.Compare(s.seen, t.seen), cmp.Compare(s.Share(1), t.Share(1)), bytes.Compare(a, b)) > 0
}

type decoder struct{ kv.Fields }

func (d *decoder) half() uint32 {
	if b := d.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) prints() (list prints) {
	for range d.Uint(maxPrints) {
		list = append(list, met{d.half(), d.Byte(), d.Byte() != 0})
	}
	return list
}

func (d *decoder) part(seen uint64) part {
	g := part{
		key: d.half(), empty: uint32(d.Uint(maxScore)), maze: uint32(d.Uint(maxScore)), seen: uint32(d.Uint(1<<32 - 1)), news: uint32(d.Uint(1<<32 - 1)),
	}
	g.last = seen - min(d.Uint(1<<48), seen)
	g.to, g.fresh, g.grows, g.wide = d.half(), min(d.Byte(), longest), min(d.Byte(), lively), d.Byte() != 0
	return g
}
