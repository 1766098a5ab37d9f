package dht

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/wire"
)

const (
	// healEvery is the interval between searches for our own position through a random peer: they find
	// a ring that split from ours and is no longer in the routing table. Each costs about two calls.
	healEvery = 30 * time.Second
	// healSoon is that interval for healSoonFor after a leaf peer died: the cause may have been a
	// partition, and in a ring of two no other peer searches. The halves of a ring of 16 merge 9 s
	// after they can connect again.
	healSoon    = 5 * time.Second
	healSoonFor = 10 * time.Minute
)

// seeker searches the peer's own position in the ring.
type seeker struct {
	*step
	neighborhood *neighborhood
	serving      *serving
	introducer   *introducer
	attacher     *attacher
	contacts     *contacts
	table        Table

	search    *lookup.Search // nil if none is running
	located   bool
	nextHeal  time.Time
	lastDeath time.Time // of a leaf peer; zero before any
}

// begin handles the first input.
func (k *seeker) begin(now time.Time) { k.nextHeal = now.Add(k.jitter(healEvery)) }

// heal searches our own position through a distant peer, so that separated rings merge again.
func (k *seeker) heal(now time.Time) {
	if now.Before(k.nextHeal) {
		return
	}
	k.nextHeal = now.Add(k.jitter(healEvery))
	if !k.lastDeath.IsZero() && now.Sub(k.lastDeath) < healSoonFor {
		k.nextHeal = now.Add(k.jitter(healSoon))
	}
	far := append(k.table.All(), k.contacts.list...)
	far = slices.DeleteFunc(far, func(p Peer) bool { return k.neighborhood.leaves.Contains(p.Key()) })
	if k.search == nil && len(far) > 0 {
		p := far[k.rnd.IntN(len(far))]
		k.search = lookup.New(k.self.ID, after(k.self.Key()), []Peer{p}, k.cfg.LookupCalls).Believe()
		k.pump(now)
	}
}

// start searches for our successor, the owner of the key after our position, unless a search is
// running.
func (k *seeker) start(now time.Time) {
	if k.search == nil {
		k.anew(now, k.contacts.list)
	}
}

// join adds peers to the search.
func (k *seeker) join(now time.Time, entries []Peer) {
	switch {
	case k.serving.state != Joining && k.serving.state != Worker:
		k.anew(now, entries)
	case k.search != nil:
		k.search.Add(entries...)
		k.pump(now)
	}
}

func (k *seeker) anew(now time.Time, seeds []Peer) {
	seeds = slices.Concat(seeds, k.table.Nearest(k.self.Key(), nearestAsked), k.neighborhood.members())
	k.search = lookup.New(k.self.ID, after(k.self.Key()), seeds, k.cfg.LookupCalls).Believe()
	k.pump(now)
}

// pump sends the calls of the search, and takes its result.
func (k *seeker) pump(now time.Time) {
	for k.search != nil {
		to, ok := k.search.Ask(now)
		if !ok {
			break
		}
		k.call(to, k.search.Request(), inFlight{kind: callSearch, search: k.search})
	}
	if k.search == nil || !k.search.Done() {
		return
	}
	found, err := k.search.Found()
	met := k.search.Met()
	k.search = nil
	if err == nil {
		k.located = true
		k.introducer.consider(now, "", append([]Peer{found.Owner}, met...))
	}
	if k.serving.state == Worker {
		k.attacher.attach.AddCandidates(met...)
		k.attacher.send(now)
	}
}

// answered takes the answer to a call of a search, which may be an older one.
func (k *seeker) answered(now time.Time, fl inFlight, answer *wire.Message, err error) {
	fl.search.Answer(now, fl.to, answer, err)
	if fl.search == k.search {
		k.pump(now)
	}
}

// neighborLost handles the death of a leaf peer.
func (k *seeker) neighborLost(now time.Time) {
	k.lastDeath, k.nextHeal = now, now.Add(k.jitter(healSoon))
}
