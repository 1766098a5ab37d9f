package dht_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// claimsAll says that all keys are its own.
func claimsAll(self dht.Peer, _ *wire.Message) *wire.Message {
	at := self.Key()
	return wire.New(&wire.Message_NextHopResponse{NextHopResponse: &wire.NextHopResponse{
		Final: true, Serving: true, Known: true, Hint: &wire.Hint{Owner: self.Wire(), Start: at[:], End: at[:]},
	}})
}

// vouchesFor says that all keys are another's.
func vouchesFor(other dht.Peer) func(dht.Peer, *wire.Message) *wire.Message {
	at := other.Key()
	return func(dht.Peer, *wire.Message) *wire.Message {
		return wire.New(&wire.Message_NextHopResponse{NextHopResponse: &wire.NextHopResponse{
			Known: true, Hint: &wire.Hint{Owner: other.Wire(), Start: at[:], End: at[:]},
		}})
	}
}

// TestStrangersOwnNothing: identities that are in nobody's leaf set, but in all routing tables, say
// that everything is theirs, or vouch for one of them. No lookup ends at one, not even for its own
// position, which is how strangers are told from members; nor is one believed to own anything
// afterwards.
//
// Slow: 1,500 lookups in simulated rings of 64 peers.
func TestStrangersOwnNothing(t *testing.T) {
	for _, row := range []struct {
		name         string
		claim, vouch int
		seed         uint64
	}{
		{"one", 1, 0, 11},
		{"eight", 8, 0, 11},
		{"one and seven that vouch for it", 1, 7, 11},
		{"the same elsewhere", 1, 7, 16}, // of these two votes were enough to own what is not theirs
		{"and elsewhere", 1, 7, 19},
	} {
		s := dhtsim.NewSim(dhtsim.World{Seed: row.seed})
		s.Found(64)
		settle(t, s, time.Minute)
		members := slices.Clone(s.Members())
		var liars []*dhtsim.Node
		for range row.claim {
			liars = append(liars, s.Liar(claimsAll))
		}
		for range row.vouch {
			liars = append(liars, s.Liar(vouchesFor(liars[0].Peer)))
		}
		rnd := rand.New(rand.NewPCG(row.seed, 11))
		right := func(id peer.ID, key ring.Key) bool { return id == s.Truth(key).Self().ID }
		misled, calls := 0, 0
		keys := 2000
		if os.Getenv("APOIDEA_FULL") == "" {
			keys = 300
		}
		for i := range keys {
			n, key := members[rnd.IntN(len(members))], randomKey(rnd)
			if i%2 == 0 {
				key = liars[rnd.IntN(row.claim)].Peer.Key()
			}
			for _, l := range liars {
				n.Meet(l)
			}
			found, err := lookupFrom(s, n, key)
			other := randomKey(rnd)
			if guess, ok := n.Guess(other); err != nil || !right(found.Owner.ID, key) || ok && !right(guess.ID, other) {
				misled++
			}
			calls += found.Calls
		}
		t.Logf("%s beside 64 peers: %d of %d lookups are misled, %.2f calls each", row.name, misled, keys, float64(calls)/float64(keys))
		if misled > 0 {
			t.Errorf("%s: %d lookups of %d are misled", row.name, misled, keys)
		}
	}
}
