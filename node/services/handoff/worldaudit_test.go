package handoff

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
)

// covers says whether one shelf has all that another has at a position.
func (w *world) covers(got, want shelf, pos ring.Pos) bool {
	for key, value := range want {
		if ring.Pos([]byte(key)) != pos {
			continue
		}
		if had, ok := got[key]; !ok || version(had) < version(value) {
			return false
		}
	}
	return true
}

// checkCall holds that records go to whom the sender believes their owner, in order, and none is
// larger than a part or alone.
func (p *keep) checkCall(call *Call) {
	w := p.w
	size := 0
	for i, r := range call.Push.Records {
		owner, ok := p.Owner(ring.Pos(r.Key))
		if p.Serves(ring.Pos(r.Key)) {
			owner = p.id
		}
		if !ok || owner != call.To {
			w.t.Fatalf("%s pushes %x to %s and believes it %s's", p.id, r.Key[:2], call.To, owner)
		}
		if i > 0 && bytes.Compare(call.Push.Records[i-1].Key, r.Key) >= 0 {
			w.t.Fatalf("%s pushes keys out of order", p.id)
		}
		size += len(r.Key) + len(r.Value)
	}
	if size > part && len(call.Push.Records) > 1 || len(call.Push.Records) == 0 {
		w.t.Fatalf("%s pushes %d bytes in %d records", p.id, size, len(call.Push.Records))
	}
}

// checkSettled holds that nobody that this peer knows keeps records of the arc that has just
// settled which this peer lacks: own ones, or in the copy of a peer that is gone.
func (p *keep) checkSettled() {
	if !p.serves {
		return
	}
	p.w.settled++
	for _, q := range p.w.peers {
		if q == p || !q.up || p.view[q.id] == absent || q.view[q.id] == absent {
			continue
		}
		p.checkLacks(q, "own", q.own)
		for source, c := range q.copies {
			if s := p.w.peer(source); !s.up && !slices.ContainsFunc(p.w.peers, func(o *keep) bool { return o.up && o.view[source] == leaving }) {
				p.checkLacks(q, "copy of "+string(source), c)
			}
		}
	}
}

func (p *keep) checkLacks(q *keep, what string, records shelf) {
	for key, value := range records {
		pos := ring.Pos([]byte(key))
		if !p.Serves(pos) || !p.settler.Settled(pos) || q.Serves(pos) {
			continue
		}
		if had, ok := p.own[key]; !ok || version(had) < version(value) {
			p.w.t.Fatalf("%s has settled, and %s, %s, has %x", p.id, q.id, what, pos[:2])
		}
	}
}

// converge lets everybody see the truth, and everything come to rest.
func (w *world) converge() {
	w.t.Helper()
	loss := w.loss
	w.loss, w.late = 0, nil
	for round := range 3000 {
		for _, p := range w.peers {
			if !p.up {
				continue
			}
			for _, q := range w.peers {
				p.learn(q.id)
			}
			p.grow()
			p.ship()
			p.tick()
		}
		for range len(w.fly) * 2 {
			w.deliver()
		}
		w.now = w.now.Add(50 * time.Millisecond)
		if round > 5 && len(w.fly) == 0 && w.rest() {
			w.loss = loss
			return
		}
	}
	for _, p := range w.peers {
		w.t.Logf("%s: up %v, serves %v, clean %v, %d own, copies of %d", p.id, p.up, p.serves, p.up && p.keeper.Clean(), len(p.own), len(p.copies))
	}
	w.t.Fatal("no rest although the ring stands still")
}

// rest says whether every peer is clean and has settled.
func (w *world) rest() bool {
	for _, p := range w.peers {
		if p.up && (!p.keeper.Clean() || p.serves && !p.settler.All()) {
			return false
		}
	}
	return true
}

// spared says whether a copy of all that was acknowledged lies on the disks that are left without
// some.
func (w *world) spared(without []*keep) bool {
	for key, version := range w.acked {
		if !w.lies(key, version, without) {
			return false
		}
	}
	return true
}

func (w *world) lies(key string, v uint64, without []*keep) bool {
	for _, p := range w.peers {
		if slices.Contains(without, p) {
			continue
		}
		if value, ok := p.own[key]; ok && version(value) >= v {
			return true
		}
		for _, c := range p.copies {
			if value, ok := c[key]; ok && version(value) >= v {
				return true
			}
		}
	}
	return false
}

// audit holds that all that was acknowledged is with its owner, and that nobody keeps what is not
// its own.
func (w *world) audit() {
	w.t.Helper()
	for _, key := range slices.Sorted(maps.Keys(w.acked)) {
		var where []string
		found := false
		for _, p := range w.peers {
			if value, ok := p.own[key]; ok && p.up {
				where = append(where, fmt.Sprintf("%s has %d", p.id, version(value)))
				found = found || p.Serves(ring.Pos([]byte(key))) && version(value) >= w.acked[key]
			}
		}
		if !found {
			w.t.Fatalf("record %x %x, version %d, is not with its owner; %v", key[:1], key[ring.PosSize:], w.acked[key], where)
		}
	}
	for _, p := range w.peers {
		if !p.up {
			continue
		}
		for key := range p.own {
			if !p.Serves(ring.Pos([]byte(key))) {
				w.t.Fatalf("%s is clean and has %x, which is not its own", p.id, key[:1])
			}
		}
		for source, c := range p.copies {
			if w.truth[source] == absent && len(c) > 0 {
				w.t.Fatalf("%s is clean and has a copy of %s, which is gone", p.id, source)
			}
		}
	}
}
