package novelty

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"

	"github.com/apoidea/apoidea/storage/kv"
)

// The first byte of what is written.
const (
	version     = 4
	farmVersion = 2
)

var errFormat = errors.New("novelty: malformed or of another format")

// maxScore bounds what is read.
const maxScore = strongWeight * MaxPages

// MaxBytes is the most that Append of a State or a Farm writes.
const MaxBytes = 64 + 21*(maxPrints+maxTexts+maxExact) + 40*(maxGroups+maxForms)

// Append writes a state.
func (s *State) Append(b []byte) []byte {
	b = append(b, version)
	for _, n := range []uint64{s.seen, s.repeats, s.news, uint64(s.score), uint64(s.near), uint64(s.links), uint64(s.top), uint64(s.since), uint64(s.abroad), uint64(s.mazed), uint64(s.probed), uint64(s.least), uint64(s.leastBefore)} {
		b = binary.AppendUvarint(b, n)
	}
	for _, list := range []prints{s.text, s.all, s.exact} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, p := range list {
			b = append(binary.LittleEndian.AppendUint64(b, p.bits), p.hits)
			b = append(append(b, p.at[0][:]...), p.at[1][:]...)
		}
	}
	return s.appendParts(s.appendParts(b, s.groups), s.forms)
}

func (s *State) appendParts(b []byte, list []group) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for i := range list {
		g := &list[i]
		b = binary.LittleEndian.AppendUint32(b, g.key)
		for _, n := range []uint64{uint64(g.score), uint64(g.near), uint64(g.seen), uint64(g.news), s.seen - min(g.last, s.seen)} {
			b = binary.AppendUvarint(b, n)
		}
		b = append(b, g.fresh, g.since)
	}
	return b
}

// Decode reads what Append wrote. What earlier versions wrote says nothing here.
func Decode(b []byte) (*State, error) {
	d := decoder{kv.Fields{Rest: b}}
	switch v := d.Byte(); {
	case v > 0 && v < version:
		return new(State), nil
	case v != version:
		return nil, errFormat
	}
	s := &State{
		seen: d.Uint(1 << 48), repeats: d.Uint(1 << 48), news: d.Uint(1 << 48), score: uint32(d.Uint(maxScore)), near: uint32(d.Uint(maxScore)), links: uint32(d.Uint(maxScore)), top: uint32(d.Uint(maxScore)),
		since: uint8(d.Uint(nearby + 1)), abroad: uint8(d.Uint(mostAbroad)), mazed: uint8(d.Uint(nearby + 1)), probed: uint8(d.Uint(maxProbes)), least: uint32(d.Uint(1<<32 - 1)), leastBefore: uint32(d.Uint(1<<32 - 1)),
	}
	s.text, s.all, s.exact = d.prints(maxTexts), d.prints(maxPrints), d.prints(maxExact)
	s.groups, s.forms = d.parts(maxGroups, s.seen), d.parts(maxForms, s.seen)
	return s, d.end()
}

// Append writes a farm.
func (f *Farm) Append(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(append(b, farmVersion), f.seen), uint64(f.score))
	return appendSaid(b, f.met)
}

func appendSaid(b []byte, list []said) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, m := range list {
		b = append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, m.bits), m.host), m.hits)
	}
	return b
}

// DecodeFarm reads what Append wrote.
func DecodeFarm(b []byte) (*Farm, error) {
	d := decoder{kv.Fields{Rest: b}}
	if d.Byte() != farmVersion {
		return nil, errFormat
	}
	f := &Farm{seen: d.Uint(1 << 48), score: uint32(d.Uint(maxScore)), met: d.said(maxFarm)}
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

type decoder struct{ kv.Fields }

func (d *decoder) fixed() uint64 {
	if b := d.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) half() uint32 {
	if b := d.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) prints(most uint64) (list prints) {
	for range d.Uint(most) {
		m := met{bits: d.fixed(), hits: d.Byte()}
		for i := range m.at {
			for k := range m.at[i] {
				m.at[i][k] = d.Byte()
			}
		}
		list = append(list, m)
	}
	return list
}

func (d *decoder) said(most uint64) (list []said) {
	for range d.Uint(most) {
		list = append(list, said{d.fixed(), d.half(), d.Byte()})
	}
	return list
}

func (d *decoder) parts(most, seen uint64) (list []group) {
	for range d.Uint(most) {
		g := group{
			key: d.half(), score: uint32(d.Uint(maxScore)), near: uint32(d.Uint(maxScore)), seen: uint32(d.Uint(1<<32 - 1)), news: uint32(d.Uint(1<<32 - 1)),
		}
		g.last = seen - min(d.Uint(1<<48), seen)
		g.fresh, g.since = min(d.Byte(), lively), min(d.Byte(), nearby+1)
		list = append(list, g)
	}
	return list
}

func (d *decoder) end() error {
	if !d.Whole() {
		return errFormat
	}
	return nil
}
