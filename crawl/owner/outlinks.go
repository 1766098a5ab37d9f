package owner

import (
	"math"

	"github.com/klauspost/compress/s2"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// packFrom is the size from which a list of links is packed: below it S2 wins nothing.
const packFrom = 256

// maxList bounds the links of one value: a page's come in several outcomes of wire.PieceLinks where there are more, and several fetches of a page may
// bring different ones.
const maxList = 1<<linkIDBits - 1

// outlink is a link on its way. In the record of a page's links depth is relative to the page's.
type outlink struct {
	url   string
	depth uint32
	hops  uint8
	kind  link.Kind
}

// linkList is a value that holds links: those of a page, or an outbox entry. An outbox entry with again set also stands for the recorded links
// of a page, to be emitted anew because the page was met at a smaller depth.
type linkList struct {
	again bool
	links []outlink
	rest  string // fields of later versions
}

// encode writes the list, and cuts it to what one value may hold.
func (l *linkList) encode() []byte {
	l.links = l.links[:min(len(l.links), maxList)]
	size := 0
	for i := range l.links {
		more := len(l.links[i].url) + perLink
		if size+more > maxPayload {
			l.links = l.links[:i]
			break
		}
		size += more
	}
	value := l.write(size)
	for ; len(value) > maxValue; value = l.write(size) {
		l.links = l.links[:len(l.links)*3/4]
	}
	return value
}

// perLink bounds what a link takes beside its URL.
const perLink = 11

// Numbers of the fields of record.Links. A list is written and read by hand: it has as many entries
// as a page has links, and one that a stranger made up must not take more memory than its bytes.
const (
	linksAgain = iota + 1
	linksURL
	linksDepth
	linksHops
	linksKind
	linksPacked
)

// write encodes all of the list, of about that size unpacked.
func (l *linkList) write(size int) []byte {
	e := append(make([]byte, 0, 16+size), formatMessage)
	if l.again {
		e = protowire.AppendVarint(protowire.AppendTag(e, linksAgain, protowire.VarintType), 1)
	}
	head := len(e)
	e = l.appendColumns(e)
	if len(e)-head >= packFrom {
		packed := s2.Encode(nil, e[head:])
		e = protowire.AppendBytes(protowire.AppendTag(e[:head], linksPacked, protowire.BytesType), packed)
	}
	return append(e, l.rest...)
}

func (l *linkList) appendColumns(e []byte) []byte {
	var depths, hops, kinds uint64 // whether any of the column is not zero, and the size of the first
	for i := range l.links {
		k := &l.links[i]
		e = protowire.AppendString(protowire.AppendTag(e, linksURL, protowire.BytesType), k.url)
		depths |= uint64(k.depth)
		hops |= uint64(k.hops)
		kinds |= uint64(k.kind)
	}
	if depths > 0 {
		size := 0
		for i := range l.links {
			size += protowire.SizeVarint(uint64(l.links[i].depth))
		}
		e = protowire.AppendVarint(protowire.AppendTag(e, linksDepth, protowire.BytesType), uint64(size)) //nolint:gosec // a size
		for i := range l.links {
			e = protowire.AppendVarint(e, uint64(l.links[i].depth))
		}
	}
	if hops > 0 {
		e = protowire.AppendVarint(protowire.AppendTag(e, linksHops, protowire.BytesType), uint64(len(l.links)))
		for i := range l.links {
			e = append(e, l.links[i].hops)
		}
	}
	if kinds > 0 {
		e = protowire.AppendVarint(protowire.AppendTag(e, linksKind, protowire.BytesType), uint64(len(l.links)))
		for i := range l.links {
			e = append(e, byte(l.links[i].kind))
		}
	}
	return e
}

func decodeLinks(b []byte) (linkList, error) {
	switch {
	case isOld(b):
		return oldLinks(b)
	case len(b) > 0 && b[0] > formatMessage:
		return linkList{}, newer(b[0])
	case len(b) == 0 || b[0] != formatMessage:
		return linkList{}, errFormat
	}
	var r linksReader
	if err := r.read(b[1:], true); err != nil {
		return linkList{}, err
	}
	return r.list, r.columns()
}

// linksReader reads a list. The columns lie in what is read, until they are put together.
type linksReader struct {
	list                linkList
	depths, hops, kinds []byte
}

// read takes the fields of a message; within one that is packed there is no other.
func (r *linksReader) read(b []byte, whole bool) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errFormat
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return errFormat
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
	case number == linksAgain && kind == protowire.VarintType && whole:
		n, _ := protowire.ConsumeVarint(value)
		r.list.again = n != 0
	case number == linksURL && kind == protowire.BytesType:
		if len(content) > link.MaxURL || len(r.list.links) >= maxList {
			return errFormat
		}
		r.list.links = append(r.list.links, outlink{url: string(content)})
	case number == linksDepth && kind == protowire.BytesType:
		r.depths = content
	case number == linksHops && kind == protowire.BytesType:
		r.hops = content
	case number == linksKind && kind == protowire.BytesType:
		r.kinds = content
	case number == linksPacked && kind == protowire.BytesType && whole:
		size, err := s2.DecodedLen(content)
		if err != nil || size > maxPayload {
			return errFormat
		}
		columns, err := s2.Decode(nil, content)
		if err != nil {
			return errFormat
		}
		return r.read(columns, false)
	default:
		if r.list.rest += string(field); number <= linksPacked || len(r.list.rest) > maxRest {
			return errFormat
		}
	}
	return nil
}

// columns puts the columns into the links. One that is there is of all of them.
func (r *linksReader) columns() error {
	links := r.list.links
	if r.hops != nil && len(r.hops) != len(links) || r.kinds != nil && len(r.kinds) != len(links) {
		return errFormat
	}
	for i := range links {
		k := &links[i]
		if r.hops != nil {
			k.hops = r.hops[i]
		}
		if r.kinds != nil {
			k.kind = link.Kind(r.kinds[i])
		}
		if r.depths != nil {
			depth, n := protowire.ConsumeVarint(r.depths)
			if n < 0 || depth > math.MaxUint32 {
				return errFormat
			}
			k.depth, r.depths = uint32(depth), r.depths[n:]
		}
		if k.hops > wire.MaxRedirects+1 || k.kind > link.KindRobots {
			return errFormat
		}
	}
	if len(r.depths) > 0 {
		return errFormat
	}
	return nil
}
