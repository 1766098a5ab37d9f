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
	// Within is how much longer than the smallest a round trip may be to count as optimal: no clock
	// of a busy machine tells them apart.
	Within = time.Millisecond
	// Oracle is the name of the row that knows everything.
	Oracle = "oracle"

	// PageMean2003 is the mean size of an HTML page in crawls of that time, in bytes; ours are
	// longer.
	PageMean2003 = 10_000

	// The bytes of messages, for what they cost: a URL with its server's address, a result, and
	// what every message has.
	URLBytes, ResultBytes, MessageBytes = 72, 20, 60
)

// Decide asks a strategy until it names a worker: meanwhile those measure the site whom it names.
// It counts their probes.
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

// Join gives a peer its position among those taken, which ascend: of some keys that it draws the
// one that splits the ring best, as live peers do.
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

// Successor is the index of the first key at or after one, round the circle.
func Successor(ascending []ring.Key, key ring.Key) int {
	at, _ := slices.BinarySearchFunc(ascending, key, ring.Key.Compare)
	return at % len(ascending)
}

// Seen is what one peer knows of coordinates.
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
