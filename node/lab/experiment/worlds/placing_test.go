package worlds_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
)

// twice lets each candidate probe, and once more.
type twice struct{ rounds int }

func (s *twice) Next(v *placement.View) placement.Choice {
	if s.rounds--; s.rounds >= 0 {
		return placement.Choice{Probe: []string{"a", "b"}}
	}
	return placement.Choice{Worker: "b"}
}

func TestDecide(t *testing.T) {
	view := func() *placement.View {
		return &placement.View{Host: "h.example", Measured: make(map[string]placement.Measurement)}
	}
	probe := func(peer string) time.Duration { return time.Duration(peer[0]) }
	v := view()
	c, probes, err := worlds.Decide(&twice{1}, v, probe)
	if err != nil || c.Worker != "b" || probes != 2 || v.Measured["b"].RTT != 'b' {
		t.Errorf("%+v after %d probes, %v: %v", c, probes, v.Measured, err)
	}
	if _, _, err := worlds.Decide(&twice{2}, view(), probe); err == nil || !strings.Contains(err.Error(), "h.example") {
		t.Errorf("who is asked to probe twice: %v", err)
	}
}

// TestJoin checks that the ring stays in order, and that the best of eight keys leaves shorter arcs
// than random ones.
func TestJoin(t *testing.T) {
	var taken []ring.Key
	const peers = 64
	for i := range peers {
		var key ring.Key
		key, taken = worlds.Join(taken, func(k int) ring.Key { return ring.KeyOf([]byte{byte(i), byte(k)}) })
		if taken[worlds.Successor(taken, key)] != key {
			t.Fatalf("peer %d is not where its key is", i)
		}
	}
	if len(taken) != peers || !slices.IsSortedFunc(taken, ring.Key.Compare) {
		t.Errorf("%d keys, or in no order", len(taken))
	}
	longest := 0
	for i := range taken {
		longest = max(longest, int(taken[(i+1)%peers].Sub(taken[i])[0]))
	}
	if longest > 256*3/peers {
		t.Errorf("the longest arc is %d 256ths of the ring", longest)
	}
}
