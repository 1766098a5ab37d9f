package novelty

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
)

// version is the first byte of what is written.
const version = 2

var errFormat = errors.New("novelty: malformed or of another format")

// maxScore bounds what is read.
const maxScore = strongWeight * MaxPages

// MaxBytes is the most that Append of a State or a Farm writes.
const MaxBytes = 64 + 21*(maxPrints+maxTexts+maxExact) + 20*maxGroups

// Append writes a state.
func (s *State) Append(b []byte) []byte {
	b = append(b, version)
	for _, n := range []uint64{s.seen, s.repeats, uint64(s.score), uint64(s.near), uint64(s.links), uint64(s.top), uint64(s.since), uint64(s.least), uint64(s.leastBefore)} {
		b = binary.AppendUvarint(b, n)
	}
	for _, list := range []prints{s.text, s.all, s.exact} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, p := range list {
			b = append(binary.LittleEndian.AppendUint64(b, p.bits), p.hits)
			for _, key := range p.at {
				b = binary.LittleEndian.AppendUint32(b, key)
			}
		}
	}
	b = binary.AppendUvarint(b, uint64(len(s.groups)))
	for i := range s.groups {
		g := &s.groups[i]
		b = binary.LittleEndian.AppendUint32(b, g.key)
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(g.score)), uint64(g.seen))
		b = binary.AppendUvarint(b, s.seen-min(g.last, s.seen))
	}
	return b
}

// Decode reads what Append wrote.
func Decode(b []byte) (*State, error) {
	d := decoder{b: b}
	if d.byte() != version {
		return nil, errFormat
	}
	s := &State{
		seen: d.uint(1 << 48), repeats: d.uint(1 << 48), score: uint32(d.uint(maxScore)), near: uint32(d.uint(maxScore)), links: uint32(d.uint(maxScore)), top: uint32(d.uint(maxScore)),
		since: uint8(d.uint(nearby + 1)), least: uint32(d.uint(1<<32 - 1)), leastBefore: uint32(d.uint(1<<32 - 1)),
	}
	s.text, s.all, s.exact = d.prints(maxTexts), d.prints(maxPrints), d.prints(maxExact)
	for range d.uint(maxGroups) {
		g := group{key: d.half(), score: uint32(d.uint(maxScore)), seen: uint32(d.uint(1<<32 - 1))}
		g.last = s.seen - min(d.uint(1<<48), s.seen)
		s.groups = append(s.groups, g)
	}
	return s, d.end()
}

// Append writes a farm.
func (f *Farm) Append(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(append(b, version), f.seen), uint64(f.score))
	b = binary.AppendUvarint(b, uint64(len(f.met)))
	for _, m := range f.met {
		b = append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, m.bits), m.host), m.hits)
	}
	return b
}

// DecodeFarm reads what Append wrote.
func DecodeFarm(b []byte) (*Farm, error) {
	d := decoder{b: b}
	if d.byte() != version {
		return nil, errFormat
	}
	f := &Farm{seen: d.uint(1 << 48), score: uint32(d.uint(maxScore))}
	for range d.uint(maxFarm) {
		f.met = append(f.met, said{d.fixed(), d.half(), d.byte()})
	}
	return f, d.end()
}

// Later says whether one encoded state knows more than another: it is the one that is kept of two, in whatever order they come. A trap stays one.
func Later(a, b []byte) bool {
	s, err := Decode(a)
	if err != nil {
		return false
	}
	t, err := Decode(b)
	if err != nil {
		return true
	}
	return cmp.Or(cmp.Compare(s.seen, t.seen), cmp.Compare(s.score, t.score), cmp.Compare(s.near, t.near), cmp.Compare(s.links, t.links), cmp.Compare(s.top, t.top), bytes.Compare(a, b)) > 0
}

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) fail() uint64 {
	d.b, d.bad = nil, true
	return 0
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		return byte(d.fail())
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uint(most uint64) uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > most {
		return d.fail()
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) fixed() uint64 {
	if len(d.b) < 8 {
		return d.fail()
	}
	n := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return n
}

func (d *decoder) half() uint32 {
	if len(d.b) < 4 {
		return uint32(d.fail()) //nolint:gosec // zero
	}
	n := binary.LittleEndian.Uint32(d.b)
	d.b = d.b[4:]
	return n
}

func (d *decoder) prints(most uint64) (list prints) {
	for range d.uint(most) {
		list = append(list, met{d.fixed(), d.byte(), keys{d.half(), d.half(), d.half()}})
	}
	return list
}

func (d *decoder) end() error {
	if d.bad || len(d.b) > 0 {
		return errFormat
	}
	return nil
}
