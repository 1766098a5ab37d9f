// Package frame tells what a page says itself from what most pages of its host carry: menus,
// notices, the same words beside every article. [Hosts] learns such frames where pages are read;
// what is left of a page is its [Own] words, of which the owner of the host is told a print
// (package novelty).
package frame

import (
	"container/list"
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/apoidea/apoidea/crawl/extract"
)

// Bounds of frames.
const (
	maxFrames  = 512  // hosts whose frames are known at once, those met last
	maxLearnt  = 2048 // terms that are counted of a host
	halvedAt   = 64   // pages after which all counts are halved
	framePages = 8    // pages that tell a frame
)

// Own is what a page says itself, without the frame of its host.
type Own struct {
	// Words is a print of its own words and images, 1 if there is none; All the same of its own
	// numbers as well. Zero: nothing is known of them.
	Words, All uint64
	// Count is the number of own words and images.
	Count int
}

// Body is what a body says that is no HTML: itself.
func Body(digest []byte) Own {
	var first [8]byte
	copy(first[:], digest)
	sum := max(binary.LittleEndian.Uint64(first[:]), None+1)
	return Own{sum, sum, FewWords}
}

const (
	// None is the print of no words.
	None = 1
	// FewWords: a page of fewer own words is no edition of another.
	FewWords = 8
)

// Hosts learns what the pages of each host have in common. A term (extract.Page.Terms) that at
// least half of a host's last pages carry is part of its frame. It is the memory of a worker, and
// lost with it: the pages that come first then have no frame. Safe for concurrent use.
type Hosts struct {
	mu    sync.Mutex
	hosts map[string]*list.Element
	order list.List // of *frame, the one met last in front
}

type frame struct {
	host  string
	pages uint16
	terms map[uint32]uint16 // on how many pages each was met
}

// Own tells what is a page's own, and learns from the page.
func (fs *Hosts) Own(host string, terms []uint32) Own {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.of(host).own(terms)
}

func (fs *Hosts) of(host string) *frame {
	if e := fs.hosts[host]; e != nil {
		fs.order.MoveToFront(e)
		return e.Value.(*frame)
	}
	if fs.hosts == nil {
		fs.hosts = make(map[string]*list.Element)
	}
	if last := fs.order.Back(); last != nil && len(fs.hosts) >= maxFrames {
		delete(fs.hosts, fs.order.Remove(last).(*frame).host)
	}
	f := &frame{host: host, terms: make(map[uint32]uint16)}
	fs.hosts[host] = fs.order.PushFront(f)
	return f
}

func (f *frame) own(terms []uint32) Own {
	own := Own{Words: None, All: None}
	if f.pages++; f.pages >= halvedAt || len(f.terms) >= maxLearnt {
		f.halve()
	}
	for _, t := range terms {
		n := f.terms[t]
		if n > 0 || len(f.terms) < maxLearnt {
			f.terms[t] = n + 1
		}
		if f.pages >= framePages && 2*n+2 > f.pages {
			continue
		}
		h := spread(t)
		own.All += h
		if t&extract.Number == 0 {
			own.Words += h
			own.Count++
		}
	}
	own.Words, own.All = max(own.Words, None), max(own.All, None)
	return own
}

// halve lets older pages count for less, and forgets what was met once.
func (f *frame) halve() {
	f.pages /= 2
	for t, n := range f.terms {
		if n /= 2; n == 0 {
			delete(f.terms, t)
		} else {
			f.terms[t] = n
		}
	}
}

// spread is 64 bits of a term, whose sum over a page's terms does not hang on their order.
func spread(t uint32) uint64 {
	hi, lo := bits.Mul64(uint64(t)^0x9e3779b97f4a7c15, 0xe7037ed1a0b428db)
	return hi ^ lo
}
