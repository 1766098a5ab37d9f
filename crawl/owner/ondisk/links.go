package ondisk

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// packFrom is the size in bytes from which a list of links is compressed with S2.
const packFrom = 256

// MaxList bounds the links of one value: long lists of a page come in several outcomes of
// wire.PieceLinks, and repeated fetches of a page may return different ones.
const MaxList = 1<<16 - 1

// Link is a link in transit. In the result of links.Children, depth is relative to the page's.
type Link struct {
	URL   string    // canonical
	Depth uint32    // links from a seed, or from the page
	Hops  uint8     // redirects followed to it
	Kind  link.Kind // how it was found
}

// Links is the list of links of an outbox entry.
type Links struct {
	Links  []Link       // in the order in which they were found
	Source *link.Source // their page; nil: unknown
	Rest   string       // unknown fields
}

// Earlier returns the one of two sources that entries of a page keep, in any order of arrival.
func Earlier(a, b *link.Source) *link.Source {
	if a == nil || b != nil && bytes.Compare(EncodeSource(b), EncodeSource(a)) < 0 {
		return b
	}
	return a
}

// Encode returns the encoded list, truncated to the limit of a value.
func (l *Links) Encode() []byte {
	l.Links = l.Links[:min(len(l.Links), MaxList)]
	size := 0
	for i := range l.Links {
		more := len(l.Links[i].URL) + perLink
		if size+more > maxPayload {
			l.Links = l.Links[:i]
			break
		}
		size += more
	}
	value := l.write(size)
	for ; len(value) > maxValue; value = l.write(size) {
		l.Links = l.Links[:len(l.Links)*3/4]
	}
	return value
}

// perLink bounds the bytes of a link besides its URL.
const perLink = 11

// Field numbers of record.Links. The codec is handwritten: a list has an entry for each link of a
// page, and a list of an untrusted peer must not take more memory than its size.
const (
	linksURL = iota + 2
	linksDepth
	linksHops
	linksKind
	linksPacked
	linksSource
)

// write encodes the whole list, of about the given size unpacked.
func (l *Links) write(size int) []byte {
	e := append(make([]byte, 0, 16+size), Format)
	head := len(e)
	e = l.appendColumns(e)
	if len(e)-head >= packFrom {
		packed := s2.Encode(nil, e[head:])
		e = protowire.AppendBytes(protowire.AppendTag(e[:head], linksPacked, protowire.BytesType), packed)
	}
	if l.Source != nil {
		e = protowire.AppendBytes(protowire.AppendTag(e, linksSource, protowire.BytesType), EncodeSource(l.Source)[1:])
	}
	return append(e, l.Rest...)
}

func (l *Links) appendColumns(e []byte) []byte {
	var depths, hops, kinds uint64 // whether any value of the column is not zero, and the size of the first
	for i := range l.Links {
		k := &l.Links[i]
		e = protowire.AppendString(protowire.AppendTag(e, linksURL, protowire.BytesType), k.URL)
		depths |= uint64(k.Depth)
		hops |= uint64(k.Hops)
		kinds |= uint64(k.Kind)
	}
	if depths > 0 {
		size := 0
		for i := range l.Links {
			size += protowire.SizeVarint(uint64(l.Links[i].Depth))
		}
		e = protowire.AppendVarint(protowire.AppendTag(e, linksDepth, protowire.BytesType), uint64(size)) // a size
		for i := range l.Links {
			e = protowire.AppendVarint(e, uint64(l.Links[i].Depth))
		}
	}
	if hops > 0 {
		e = protowire.AppendVarint(protowire.AppendTag(e, linksHops, protowire.BytesType), uint64(len(l.Links)))
		for i := range l.Links {
			e = append(e, l.Links[i].Hops)
		}
	}
	if kinds > 0 {
		e = protowire.AppendVarint(protowire.AppendTag(e, linksKind, protowire.BytesType), uint64(len(l.Links)))
		for i := range l.Links {
			e = append(e, byte(l.Links[i].Kind))
		}
	}
	return e
}

// DecodeLinks decodes a list.
func DecodeLinks(b []byte) (Links, error) {
	if len(b) == 0 || b[0] != Format {
		return Links{}, ErrFormat
	}
	var r linksReader
	if err := r.read(b[1:], true); err != nil {
		return Links{}, err
	}
	return r.list, r.columns()
}

// linksReader decodes a list. Columns refer to the input until they are combined.
type linksReader struct {
	list                Links
	depths, hops, kinds []byte
}

// read reads the fields of a message; a packed message must not contain another.
func (r *linksReader) read(b []byte, whole bool) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return ErrFormat
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return ErrFormat
		}
		field, value := b[:n+size], b[n:n+size]
		b = b[n+size:]
		if err := r.field(number, kind, field, value, whole); err != nil {
			return err
		}
	}
	return nil
}

func (r *linksReader) field(number protowire.Number, kind protowire.Type, field, value []byte, whole bool) error {
	content, _ := protowire.ConsumeBytes(value)
	switch {
	case number == linksURL && kind == protowire.BytesType:
		if len(content) > link.MaxURL || len(r.list.Links) >= MaxList {
			return ErrFormat
		}
		r.list.Links = append(r.list.Links, Link{URL: string(content)})
	case number == linksDepth && kind == protowire.BytesType:
		r.depths = content
	case number == linksHops && kind == protowire.BytesType:
		r.hops = content
	case number == linksKind && kind == protowire.BytesType:
		r.kinds = content
	case number == linksPacked && kind == protowire.BytesType && whole:
		size, err := s2.DecodedLen(content)
		if err != nil || size > maxPayload {
			return ErrFormat
		}
		columns, err := s2.Decode(nil, content)
		if err != nil {
			return ErrFormat
		}
		return r.read(columns, false)
	case number == linksSource && kind == protowire.BytesType && whole:
		from, err := DecodeSource(append([]byte{Format}, content...))
		if err != nil {
			return err
		}
		r.list.Source = &from
	default:
		if r.list.Rest += string(field); number <= linksSource || len(r.list.Rest) > maxRest {
			return ErrFormat
		}
	}
	return nil
}

// columns sets the columns of the links. A column must cover all links.
func (r *linksReader) columns() error {
	links := r.list.Links
	if r.hops != nil && len(r.hops) != len(links) || r.kinds != nil && len(r.kinds) != len(links) {
		return ErrFormat
	}
	for i := range links {
		k := &links[i]
		if r.hops != nil {
			k.Hops = r.hops[i]
		}
		if r.kinds != nil {
			k.Kind = link.Kind(r.kinds[i])
		}
		if r.depths != nil {
			depth, n := protowire.ConsumeVarint(r.depths)
			if n < 0 || depth > math.MaxUint32 {
				return ErrFormat
			}
			k.Depth, r.depths = uint32(depth), r.depths[n:]
		}
		if k.Hops > wire.MaxRedirects+1 || k.Kind > link.KindRobots {
			return ErrFormat
		}
	}
	if len(r.depths) > 0 {
		return ErrFormat
	}
	return nil
}

// Union adds the links of more that are not in links.
func Union(links, more []Link) []Link {
	have := make(map[Link]struct{}, len(links))
	for _, k := range links {
		have[k] = struct{}{}
	}
	for _, k := range more {
		if _, ok := have[k]; !ok {
			links = append(links, k)
		}
	}
	return links
}

// Sorted returns the links in an order independent of their arrival.
func Sorted(links []Link) []Link {
	slices.SortFunc(links, func(a, b Link) int {
		return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.Depth, b.Depth), cmp.Compare(a.Hops, b.Hops), cmp.Compare(a.Kind, b.Kind))
	})
	links = slices.Compact(links)
	return links[:min(len(links), MaxList)]
}

// UnpackedLinks returns the unpacked size of a list in bytes, including the input, without
// unpacking it.
func UnpackedLinks(value []byte) (size int) {
	size = len(value)
	for b := value[min(1, len(value)):]; len(b) > 0; {
		number, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			break
		}
		n := protowire.ConsumeFieldValue(number, kind, b[tag:])
		if n < 0 {
			break
		}
		if number == linksPacked && kind == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(b[tag:])
			if unpacked, err := s2.DecodedLen(content); err == nil {
				size += unpacked
			}
		}
		b = b[tag+n:]
	}
	return size
}
