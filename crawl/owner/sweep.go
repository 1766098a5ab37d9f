package owner

import (
	"math"
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// sweepHosts are loaded in one step: each takes a look at the disk or two.
	sweepHosts = 64
	// sweepPasses bounds the hosts of the index that one step passes over, as they are in memory or
	// have other work.
	sweepPasses = 4096
	// sweepEvery is the pause between such steps once memory is full of hosts with URLs that wait.
	sweepEvery = 250
)

// sweep walks over the index of hosts with work and loads those that are not in memory: all of them
// after a start, and those that were dropped, in turn, when there are more than memory holds.
type sweep struct {
	wanted  bool
	dropped bool // some host was dropped since the walk began
	cursor  []byte
	nextAt  int64
}

func (s *sweep) idle(now int64) bool { return s.nextAt > now }

func (t *hostTable) sweepSome() {
	s := &t.sweep
	if !s.wanted || s.nextAt > t.now {
		return
	}
	if t.agenda.searches.queue.len() > t.cfg.MaxPlacing { // these come first, and each host that is loaded may drop one of them
		s.nextAt = t.now + sweepEvery
		return
	}
	t.flush()
	if s.cursor == nil {
		s.dropped = false
		s.cursor = []byte{ondisk.SpaceWork}
	}
	var missing []ring.Pos
	end, passed := true, 0
	t.buf.Scan(slices.Clone(s.cursor), []byte{ondisk.SpaceWork + 1}, func(key, value []byte) bool {
		if passed++; len(missing) == sweepHosts || passed > sweepPasses {
			end = false
			return false
		}
		s.cursor = append(append(s.cursor[:0], key...), 0)
		if len(key) == 1+ring.PosSize && len(value) >= 2 && value[1]&workPending != 0 && t.byPos[ring.Pos(key[1:])] == nil {
			missing = append(missing, ring.Pos(key[1:]))
		}
		return true
	})
	for _, pos := range missing {
		t.load(pos, "", ring.Key{})
	}
	if end {
		s.cursor, s.wanted = nil, s.dropped
	}
	s.nextAt = math.MinInt64
	if t.busy.n+sweepHosts > t.cfg.MaxHosts {
		s.nextAt = t.now + sweepEvery
	}
}
