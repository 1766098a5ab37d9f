package farm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"

	"github.com/apoidea/apoidea/storage/kv"
)

// MaxBytes is the most that Append writes.
const MaxBytes = 64 + 13*(maxAll+maxWords) + 4*maxCounted

var errFormat = errors.New("farm: malformed")

// Append writes what is known.
func (f *Farm) Append(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(b, f.seen), uint64(f.same))
	b = append(b, f.since)
	for _, list := range [][]said{f.all, f.words} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, m := range list {
			b = append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(b, m.bits), m.host), m.hits)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(f.counted)))
	for _, host := range f.counted {
		b = binary.LittleEndian.AppendUint32(b, host)
	}
	return binary.AppendUvarint(b, uint64(f.leads))
}

// Decode reads what Append wrote.
func Decode(b []byte) (*Farm, error) {
	d := decoder{kv.Fields{Rest: b}}
	f := &Farm{seen: d.Uint(1 << 48), same: uint32(d.Uint(strongWeight * most)), since: min(d.Byte(), nearby+1)}
	f.all, f.words = d.said(maxAll), d.said(maxWords)
	for range d.Uint(maxCounted) {
		f.counted = append(f.counted, d.half())
	}
	f.leads = uint32(d.Uint(strongWeight * most))
	if !d.Whole() {
		return nil, errFormat
	}
	return f, nil
}

type decoder struct{ kv.Fields }

func (d *decoder) half() uint32 {
	if b := d.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) said(room uint64) (list []said) {
	for range d.Uint(room) {
		var m said
		if b := d.Take(8); b != nil {
			m.bits = binary.LittleEndian.Uint64(b)
		}
		m.host, m.hits = d.half(), d.Byte()
		list = append(list, m)
	}
	return list
}

// Later says whether what is encoded of one copy knows more than another: it is the one that is
// kept of two, in whatever order they come.
func Later(a, b []byte) bool {
	f, err := Decode(a)
	if err != nil {
		return false
	}
	g, err := Decode(b)
	if err != nil {
		return true
	}
	return cmp.Or(cmp.Compare(f.seen, g.seen), cmp.Compare(f.same, g.same), bytes.Compare(a, b)) > 0
}
