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
	if !f.heard(hash(host), text) {
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

// heard says whether other hosts have said the same several times, and remembers it.
func (f *Farm) heard(host uint32, text uint64) bool {
	for i, known := range slices.Backward(f.met) {
		if distance(known.bits, text) > Near {
			continue
		}
		copy(f.met[i:], f.met[i+1:])
		again := known
		if known.host != host {
			again.host, again.hits = host, min(known.hits, math.MaxUint8-1)+1
		}
		f.met[len(f.met)-1] = again
		return known.host != host && known.hits >= often
	}
	if len(f.met) >= maxFarm {
		f.met = append(f.met[:0], f.met[len(f.met)-maxFarm+1:]...)
	}
	f.met = append(f.met, said{text, host, 1})
	return false
}

// Full says whether pages that say what other hosts said before are to bring no more hosts, and why.
func (f *Farm) Full(pages int) (full bool, why string) {
	if f.score < limit(pages) {
		return false, ""
	}
	return true, fmt.Sprintf("the last hosts that brought new hosts said what others had said before (%d of them were looked at; %s)", f.seen, flagNote(pages))
}
