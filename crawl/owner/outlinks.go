package owner

import (
	"github.com/klauspost/compress/s2"

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
const perLink = 10

// write encodes all of the list, of about that size unpacked.
func (l *linkList) write(size int) []byte {
	body := make(enc, 0, size)
	for i := range l.links {
		k := &l.links[i]
		body.u64(uint64(k.depth))
		body.byte(k.hops)
		body.byte(byte(k.kind))
		body.str(k.url)
	}
	e := newEnc(16 + len(body))
	e.bool(l.again)
	e.u64(uint64(len(l.links)))
	packed := len(body) >= packFrom
	e.bool(packed)
	if packed {
		return append(e, s2.Encode(nil, body)...)
	}
	return append(e, body...)
}

func decodeLinks(b []byte) (linkList, error) {
	d := newDec(b)
	l := linkList{again: d.bool()}
	n := d.size(maxList)
	if packed := d.bool(); packed {
		size, err := s2.DecodedLen(d.b)
		if err != nil || size > maxPayload {
			return linkList{}, errFormat
		}
		body, err := s2.Decode(nil, d.b)
		if err != nil {
			return linkList{}, errFormat
		}
		d.b = body
	}
	for i := 0; i < n && !d.bad; i++ {
		k := outlink{depth: d.u32(), hops: uint8(d.uint(wire.MaxRedirects + 1))}
		k.kind, k.url = link.Kind(d.uint(uint64(link.KindRobots))), d.str(link.MaxURL)
		l.links = append(l.links, k)
	}
	return l, d.end()
}
