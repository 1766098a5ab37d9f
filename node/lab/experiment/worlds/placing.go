package worlds

import (
	"fmt"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// Within is the tolerance of an optimal round trip: clocks of busy machines cannot resolve
	// less.
	Within = time.Millisecond
	// Oracle is the name of the row with full knowledge.
	Oracle = "oracle"

	// PageMean2003 is the mean size of an HTML page in crawls of that time, in bytes; ours are
	// longer.
	PageMean2003 = 10_000

	// Sizes of messages in bytes: a URL with its server's address, a result, and the overhead of
	// every message.
	URLBytes, ResultBytes, MessageBytes = 72, 20, 60
)

// Decide queries a strategy until it names a worker; the peers that it names meanwhile probe the
// site. It returns the number of probes.
func Decide(s placement.Strategy, v *placement.View, probe func(peer string) time.Duration) (choice placement.Choice, probes int, err error) {
	for {
		choice = s.Next(v)
		if len(choice.Probe) == 0 {
			return choice, probes, nil
		}
		for _, peer := range choice.Probe {
			if _, again := v.Measured[peer]; again {
				return choice, probes, fmt.Errorf("%s: repeated probe of %s", peer, v.Host)
			}
			v.Measured[peer] = placement.Measurement{RTT: probe(peer)}
			probes++
		}
	}
}

// Join returns the position of a new peer among those taken, which ascend: of some drawn keys the
// one that splits the ring best, as in live peers.
func Join(taken []ring.Key, draw func(i int) ring.Key) (ring.Key, []ring.Key) {
	var keys []ring.Key
	var arcs []ring.Arc
	for i := range ring.PositionChoices {
		key := draw(i)
		keys = append(keys, key)
		if len(taken) > 0 {
			at := Successor(taken, key)
			arcs = append(arcs, ring.Arc{Start: taken[(at+len(taken)-1)%len(taken)], End: taken[at]})
		}
	}
	key := keys[0]
	if len(arcs) > 0 {
		key = keys[ring.BestPosition(keys, arcs)]
	}
	at, _ := slices.BinarySearchFunc(taken, key, ring.Key.Compare)
	return key, slices.Insert(taken, at, key)
}

// Successor returns the index of the first key at or after key, around the ring.
func Successor(ascending []ring.Key, key ring.Key) int {
	at, _ := slices.BinarySearchFunc(ascending, key, ring.Key.Compare)
	return at % len(ascending)
}

// Seen is one peer's view of coordinates.
type Seen struct {
	By     string              // the peer
	Gossip *coordinates.Gossip // its own
}

// Of implements coordinates.Peers.
func (s *Seen) Of(peer string) (coordinates.Coordinate, bool) {
	if peer == s.By {
		return s.Gossip.At(), true
	}
	return s.Gossip.Of(peer)
}
