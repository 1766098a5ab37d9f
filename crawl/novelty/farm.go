package novelty

import (
	"fmt"
	"math"
	"slices"
)

// maxFarm is how many prints a Farm remembers.
const maxFarm = 256

// Farm looks at hosts that bring new hosts. The zero value is that of a job of which no such page was met.
type Farm struct {
	seen  uint64
	score uint32
	met   []said
}

// said is what the pages of hosts said, how often, and which host last.
type said struct {
	bits uint64
	host uint32
	hits uint8
}

// Observe notes a page that links to hosts nobody here knew: the host that it is of, and the print of its words beside links. It says how many of those hosts
// the page may bring: any number if it says something of its own; else ever fewer, and none once nothing but such pages was met for long.
func (f *Farm) Observe(host string, text uint64, pages int) (most int) {
	f.seen++
	if again, _ := hear(&f.met, text, Near, hash(host), maxFarm); !again {
		f.score = step(f.score, -newWeight, limit(pages))
		return math.MaxInt
	}
	f.score = step(f.score, strongWeight, limit(pages))
	if full, _ := f.Full(pages); full {
		return 0
	}
	return max(mostBrought/(1+int(f.score/strongWeight)/slowdown), leastBrought)
}

// A repeat brings mostBrought hosts at first, half as many once slowdown of them stood in a row, and at least leastBrought before it brings none.
const (
	mostBrought  = 64
	leastBrought = 4
	slowdown     = 8
)

// hear says whether other hosts have said the same several times, and whether it was said at all, and remembers it.
func hear(list *[]said, bits uint64, within int, host uint32, room int) (again, known bool) {
	l := *list
	for i, had := range slices.Backward(l) {
		if distance(had.bits, bits) > within {
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
	*list = append(l, said{bits, host, 1})
	return false, false
}

// Full says whether pages that say what other hosts said before are to bring no more hosts, and why.
func (f *Farm) Full(pages int) (full bool, why string) {
	if f.score < limit(pages) {
		return false, ""
	}
	return true, fmt.Sprintf("the last hosts that brought new hosts said what others had said before (%d of them were looked at; %s)", f.seen, flagNote(pages))
}
