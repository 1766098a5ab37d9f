package novelty

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/storage/kv"
)

// Bounds of a Kin.
const (
	maxSayings  = 128 // prints that it remembers, those met last
	maxSpoken   = 64  // of words beside links
	maxCounted  = 64  // hosts that it remembers to have counted, the last ones
	noWords     = 1   // the print of a page that has none, see package extract
	MaxKinBytes = 64 + 13*(maxSayings+maxSpoken) + 4*maxCounted
)

// Said is what one of the first pages of a host says.
type Said struct {
	// Host is HostOf its name.
	Host uint32
	// All and Words are those of Page; zero if there was no page but a redirect to another host.
	All, Words uint64
	// Brought says that it links to hosts of its registrable domain that nobody knew where it was looked at.
	Brought bool
}

// HostOf is what a host's name is told by.
func HostOf(name string) uint32 { return hash(name) }

// Kin looks at the hosts of one registrable domain in a job, whoever owns them. Hosts of a few
// pages are no trap each by itself. A domain is a farm if its hosts, one after the other, say what
// other hosts of it have said and bring nothing but more such hosts. A host counts once, and one
// page that says something of its own takes off what nineteen hosts add, so that wikis in all
// languages and blogs of many people are none. The zero value has seen no page.
type Kin struct {
	seen    uint64 // pages
	score   uint32
	since   uint8 // pages since a repeat brought hosts, at most nearby+1
	all     []said
	words   []said
	counted []uint32
}

// Seen is the number of pages observed.
func (k *Kin) Seen() uint64 { return k.seen }

// Observe notes a page. Hosts is the number of them in a row which makes a farm.
func (k *Kin) Observe(p Said, hosts int) {
	if k.seen++; k.seen == 1 {
		k.since = nearby + 1
	}
	k.since = min(k.since+1, nearby+1)
	w := k.weigh(&p)
	if w > 0 && p.Brought {
		k.since = 0
	}
	switch {
	case w <= 0:
	case k.again(p.Host):
		w = 0
	case k.since > nearby:
		w = sameWeight
	}
	k.score = step(k.score, w, limit(hosts))
}

// weigh says what a page's words add: most if other hosts said all of them several times, some if they said those beside links.
func (k *Kin) weigh(p *Said) int32 {
	switch {
	case p.All == 0 && p.Brought:
		return strongWeight // what it leads to says what there is to say
	case p.All <= noWords:
		return 0
	}
	like, known := hear(&k.all, p.All, Near, p.Host, maxSayings)
	same, heard := false, false
	if p.Words > noWords {
		same, heard = hear(&k.words, p.Words, 0, p.Host, maxSpoken)
	}
	switch {
	case like:
		return strongWeight
	case same:
		return weakWeight
	case known || heard:
		return 0
	default:
		return -newWeight
	}
}

// again says whether a host was counted of late, and remembers it.
func (k *Kin) again(host uint32) bool {
	if slices.Contains(k.counted, host) {
		return true
	}
	if len(k.counted) >= maxCounted {
		k.counted = append(k.counted[:0], k.counted[len(k.counted)-maxCounted+1:]...)
	}
	k.counted = append(k.counted, host)
	return false
}

// Full says whether the domain is to get no more hosts.
func (k *Kin) Full(hosts int) bool { return k.score >= limit(hosts) }

// FullText says why a domain gets no more hosts.
func FullText(hosts int) string {
	return fmt.Sprintf("the last hosts of its domain said what others of them had said, and brought nothing but more hosts (%s)", flagNote(hosts))
}

const kinVersion = 1

// Append writes what is known of a domain.
func (k *Kin) Append(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(append(b, kinVersion), k.seen), uint64(k.score))
	b = append(b, k.since)
	for _, list := range [][]said{k.all, k.words} {
		b = appendSaid(b, list)
	}
	b = binary.AppendUvarint(b, uint64(len(k.counted)))
	for _, host := range k.counted {
		b = binary.LittleEndian.AppendUint32(b, host)
	}
	return b
}

// DecodeKin reads what Append wrote.
func DecodeKin(b []byte) (*Kin, error) {
	d := decoder{kv.Fields{Rest: b}}
	if d.Byte() != kinVersion {
		return nil, errFormat
	}
	k := &Kin{seen: d.Uint(1 << 48), score: uint32(d.Uint(maxScore)), since: min(d.Byte(), nearby+1)}
	k.all, k.words = d.said(maxSayings), d.said(maxSpoken)
	for range d.Uint(maxCounted) {
		k.counted = append(k.counted, d.half())
	}
	return k, d.end()
}

// LaterKin is Later for encoded domains.
func LaterKin(a, b []byte) bool {
	k, err := DecodeKin(a)
	if err != nil {
		return false
	}
	l, err := DecodeKin(b)
	if err != nil {
		return true
	}
	return cmp.Or(cmp.Compare(k.seen, l.seen), cmp.Compare(k.score, l.score), bytes.Compare(a, b)) > 0
}
