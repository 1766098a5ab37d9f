package farm

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
)

// Bounds of a Farm.
const (
	maxAll     = 128 // prints that it remembers, those met last
	maxWords   = 64  // of words beside links
	maxCounted = 64  // hosts that it remembers to have counted, the last ones
	nearby     = 64  // pages behind one that brings hosts, in which others are of its kind

	near  = 3 // bits in which prints of near duplicates differ at most
	often = 4 // hosts that have to say the same before another one repeats them

	noWords = 1       // the print of a page that has none, see package extract
	most    = 1 << 20 // hosts in a row, at most
)

// What a host adds to an account, and takes off it. A full account is a number of hosts in a row,
// strongWeight each.
const (
	strongWeight = 50 // it says what others said, and brings hosts
	weakWeight   = 16 // only its words beside links are those of others
	sameWeight   = 2  // it brings no host
	newWeight    = 19 * strongWeight
	leadWeight   = 16 // it leads to new hosts and to none that is known
	homeWeight   = 19 * leadWeight
)

// A page brings mostBrought hosts at first, half as many once slowdown hosts stood in a row, and at
// least leastBrought before it brings none. Pages that say something of their own are cut from a
// patient share of the way on.
const (
	mostBrought  = 64
	leastBrought = 4
	slowdown     = 8
	patient      = 8
)

// Said is what one of the first pages of a host says.
type Said struct {
	// Host is HostOf its name.
	Host uint32
	// All and Words are the prints of all its words and of those beside links (package extract);
	// zero if there was no page but a redirect to another host.
	All, Words uint64
	// Brought says that it links to hosts that nobody knew where it was looked at.
	Brought bool
}

// HostOf is what a host's name is told by.
func HostOf(name string) uint32 {
	h := fnv.New64a()
	h.Write([]byte(name))
	sum := h.Sum64()
	return max(uint32(sum>>32)^uint32(sum), 1) // halves
}

// Farm looks at hosts in the order in which their pages come. The zero value has seen no page.
type Farm struct {
	seen    uint64 // pages
	same    uint32 // the account of hosts that say what others said
	leads   uint32 // the account of those that lead to new hosts alone
	since   uint8  // pages since a repeat brought hosts, at most nearby+1
	all     []said
	words   []said
	counted []uint32
}

// said is a print, the host that said it last, and how many hosts did.
type said struct {
	bits uint64
	host uint32
	hits uint8
}

// Seen is the number of pages observed.
func (f *Farm) Seen() uint64 { return f.seen }

// Observe notes a page. Hosts is the number of them in a row which makes a farm.
func (f *Farm) Observe(p Said, hosts int) { f.observe(&p, hosts) }

// observe also says whether the page repeats what other hosts said, and whether its host was
// counted of late.
func (f *Farm) observe(p *Said, hosts int) (repeats, again bool) {
	if f.seen++; f.seen == 1 {
		f.since = nearby + 1
	}
	f.since = min(f.since+1, nearby+1)
	w := f.weigh(p)
	if repeats = w > 0; repeats && p.Brought {
		f.since = 0
	}
	switch {
	case !repeats:
	case f.again(p.Host):
		again, w = true, 0
	case f.since > nearby:
		w = sameWeight
	}
	f.same = step(f.same, w, hosts)
	return repeats, again
}

// weigh says what a page's words add: most if other hosts said all of them several times, some if
// they said those beside links.
func (f *Farm) weigh(p *Said) int32 {
	switch {
	case p.All == 0 && p.Brought:
		return strongWeight // what it leads to says what there is to say
	case p.All <= noWords:
		return 0
	}
	like, known := hear(&f.all, p.All, near, p.Host, maxAll)
	same, heard := false, false
	if p.Words > noWords {
		same, heard = hear(&f.words, p.Words, 0, p.Host, maxWords)
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

// hear says whether other hosts have said the same several times, and whether it was said at all,
// and remembers it.
func hear(list *[]said, what uint64, within int, host uint32, room int) (again, known bool) {
	l := *list
	for i, had := range slices.Backward(l) {
		if bits.OnesCount64(had.bits^what) > within {
			continue
		}
		copy(l[i:], l[i+1:])
		now := had
		if had.host != host {
			now.host, now.hits = host, min(had.hits, math.MaxUint8-1)+1
		}
		l[len(l)-1] = now
		return had.host != host && had.hits >= often, true
	}
	if len(l) >= room {
		l = append(l[:0], l[len(l)-room+1:]...)
	}
	*list = append(l, said{what, host, 1})
	return false, false
}

// again says whether a host was counted of late, and remembers it.
func (f *Farm) again(host uint32) bool {
	if slices.Contains(f.counted, host) {
		return true
	}
	if len(f.counted) >= maxCounted {
		f.counted = append(f.counted[:0], f.counted[len(f.counted)-maxCounted+1:]...)
	}
	f.counted = append(f.counted, host)
	return false
}

// Brings notes a page with links to hosts that nobody here knew, and says how many of them it may
// bring: ever fewer, and none at last, if it says what other hosts said; the same if the last hosts
// led to new hosts and to none that is known, as the page does unless it leads home. Hosts as in
// Observe.
func (f *Farm) Brings(host string, all uint64, home bool, hosts int) (may int) {
	p := Said{Host: HostOf(host), All: all, Brought: true}
	repeats, again := f.observe(&p, hosts)
	if !repeats && !home {
		again = f.again(p.Host)
	}
	switch {
	case home:
		f.leads -= min(f.leads, homeWeight)
	case !again:
		f.leads = min(f.leads+leadWeight, limit(hosts))
	}
	switch {
	case repeats && f.Full(hosts), !home && f.leads >= limit(hosts):
		return 0
	case repeats:
		return brought(f.same)
	case !home && f.leads*patient >= limit(hosts):
		return brought(f.leads)
	default:
		return math.MaxInt
	}
}

func brought(account uint32) int {
	return max(mostBrought/(1+int(account/strongWeight)/slowdown), leastBrought)
}

// Full says whether hosts that say what others said are to bring no more hosts.
func (f *Farm) Full(hosts int) bool { return f.same >= limit(hosts) }

// FullText says why a domain gets no more hosts.
func FullText(hosts int) string {
	return fmt.Sprintf("the last hosts of its domain said what others of them had said, and brought nothing but more hosts (--novelty %d)", hosts)
}

// limit is a full account.
func limit(hosts int) uint32 { return strongWeight * uint32(min(max(hosts, 1), most)) } // bounded

// step moves an account. One that is full stays so.
func step(score uint32, w int32, hosts int) uint32 {
	switch {
	case score >= limit(hosts):
		return score
	case w < 0:
		return score - min(score, uint32(-w))
	default:
		return score + uint32(w)
	}
}
