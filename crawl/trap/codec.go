package trap

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apoidea/apoidea/storage/kv"
)

// MaxBytes bounds an encoded state.
const MaxBytes = 48 << 10

// ErrFormat is returned for bytes that are no encoded state.
var ErrFormat = errors.New("trap: malformed state")

// Append appends the encoded state, at most [MaxBytes].
func (s *State) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, s.pages)
	b = binary.AppendUvarint(b, s.brought)
	b = binary.AppendUvarint(b, uint64(s.entry))
	b = binary.AppendUvarint(b, uint64(s.row))
	b = append(b, kv.Flag(s.left))
	b = s.texts.append(b)
	b = s.masked.append(b)
	b = binary.AppendUvarint(b, uint64(len(s.patterns)))
	for i := range s.patterns {
		p := &s.patterns[i]
		b = binary.LittleEndian.AppendUint32(b, p.key)
		b = binary.AppendUvarint(b, s.pages-min(p.used, s.pages))
		for _, n := range [...]uint32{p.seen, p.row, p.known, p.deep, p.from} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		b = append(b, kv.Flag(p.final), kv.Flag(p.texts))
	}
	for i := range s.Left {
		b = binary.AppendUvarint(b, s.Left[i].N)
		b = binary.AppendUvarint(b, uint64(len(s.Left[i].URL)))
		b = append(b, s.Left[i].URL...)
	}
	return b
}

// Decode reads a state that Append wrote.
func Decode(b []byte) (*State, error) {
	d := decoder{kv.Fields{Rest: b}}
	s := &State{pages: d.Uint(1 << 48), brought: d.Uint(1 << 48), entry: d.small(), row: d.small(), left: d.Byte() != 0, texts: d.recent(maxTexts), masked: d.recent(maxMasked)}
	for range d.Uint(maxPatterns) {
		p := pattern{key: d.word()}
		p.used = s.pages - min(d.Uint(1<<48), s.pages)
		p.seen, p.row, p.known, p.deep, p.from = d.small(), d.small(), d.small(), d.small(), d.small()
		p.final, p.texts = d.Byte() != 0, d.Byte() != 0
		s.patterns = append(s.patterns, p)
	}
	for i := range s.Left {
		s.Left[i] = Left{N: d.Uint(1 << 48), URL: string(d.Bytes(maxLength))}
	}
	if !d.Whole() {
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, len(b))
	}
	return s, nil
}

// Merge merges two encoded states of one host and job: the one with more pages stays, and what
// either left is left. The order of the two does not matter.
func Merge(a, b []byte) ([]byte, error) {
	s, err := Decode(a)
	if err != nil {
		return nil, err
	}
	o, err := Decode(b)
	if err != nil {
		return nil, err
	}
	if cmp.Or(cmp.Compare(s.pages, o.pages), bytes.Compare(a, b)) < 0 {
		s, o = o, s
	}
	s.left = s.left || o.left
	for i := range o.patterns {
		if p := &o.patterns[i]; p.isLeft() {
			had := s.use(p.key)
			had.final = had.final || p.final
			if p.from > 0 && (had.from == 0 || p.from < had.from) {
				had.from = p.from
			}
		}
	}
	return s.Append(nil), nil
}

func (r *recent) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(r.list)))
	b = binary.AppendUvarint(b, uint64(r.at)) //nolint:gosec // an index
	for _, d := range r.list {
		b = binary.LittleEndian.AppendUint32(b, d)
	}
	return b
}

type decoder struct{ kv.Fields }

func (d *decoder) small() uint32 { return uint32(d.Uint(1<<32 - 1)) } //nolint:gosec // bounded

func (d *decoder) word() uint32 {
	if b := d.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) recent(most uint64) (r recent) {
	n := d.Uint(most)
	r.at = int(d.Uint(most - 1)) //nolint:gosec // bounded
	for range n {
		r.list = append(r.list, d.word())
	}
	if n < most {
		r.at = 0
	}
	return r
}
