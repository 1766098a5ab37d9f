package handoff

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// replicas is r: a record lies with its owner and with r-1 successors.
const replicas = 3

// part is the size in bytes of a push in these worlds: records of up to 60 bytes make most
// positions fit, and some not.
const part = 120

// standing is where a peer stands in its life.
type standing uint8

const (
	absent standing = iota // dead, or never there
	member
	leaving
)

// world is a few peers on a ring of which each has its own, late, picture.
type world struct {
	t              *testing.T
	rnd            *rand.Rand
	now            time.Time
	peers          []*keep
	truth          map[peer.ID]standing
	acked          map[string]uint64 // records that somebody was told are safe
	fly            []*flight
	late           []*flight // whose sender gave them up
	loss           float64
	last           uint64 // version given to a record
	moved, settled int
}

// keep is a peer: it keeps records.
type keep struct {
	w       *world
	id      peer.ID
	key     ring.Key
	up      bool
	gone    bool
	own     shelf
	copies  map[peer.ID]shelf
	level   map[peer.ID]bool // followers with everything
	view    map[peer.ID]standing
	changes uint64
	serves  bool
	arc     ring.Arc
	keeper  *Keeper
	settler *Settler
	fails   int // reads that are still to fail
	sticky  int // removals that are
}

func newWorld(t *testing.T, seed uint64, peers int, loss float64) *world {
	w := &world{
		t: t, rnd: rand.New(rand.NewPCG(seed, 3)), now: time.Unix(1e9, 0), truth: make(map[peer.ID]standing), acked: make(map[string]uint64),
		loss: loss,
	}
	for range peers {
		w.add()
	}
	return w
}

// add makes a peer that never was in the ring.
func (w *world) add() {
	id := peer.ID(fmt.Sprintf("peer %d", len(w.peers)))
	w.peers = append(w.peers, &keep{w: w, id: id, key: ring.PeerKey([]byte(id))})
}

func (w *world) peer(id peer.ID) *keep {
	for _, p := range w.peers {
		if p.id == id {
			return p
		}
	}
	return nil
}

// start brings a peer up with what is on its disk. A name that lost its disk never comes back.
func (p *keep) start() {
	if p.gone {
		return
	}
	if p.own == nil {
		p.own, p.copies = make(shelf), make(map[peer.ID]shelf)
	}
	p.up, p.serves, p.level = true, false, make(map[peer.ID]bool)
	p.view = maps.Clone(p.w.truth)
	p.w.truth[p.id] = member
	p.view[p.id] = member
	p.changes++
	p.keeper = NewKeeper(Config{Part: part, Steps: 3}, p.id, space{p}, copiesOf{p}, p)
	p.settler = NewSettler(time.Minute, 50*time.Millisecond, p, p.free)
}

func (p *keep) free(arc ring.Arc) bool {
	free, err := p.keeper.Free(arc)
	return free && err == nil
}

// stop ends the process, and with it what it sent.
func (p *keep) stop(disk bool) {
	p.up, p.serves = false, false
	p.w.truth[p.id] = absent
	if !disk {
		p.own, p.copies, p.gone = nil, nil, true
		p.w.add()
	}
	for _, other := range p.w.peers {
		delete(other.level, p.id)
	}
}

// write gives a record a new version at a peer that serves it; it is acknowledged when the
// followers have it.
func (w *world) write() {
	pos := ring.Pos{byte(w.rnd.IntN(24) * 11)}
	suffix := 0
	if w.rnd.IntN(3) > 0 {
		suffix = w.rnd.IntN(5)
	}
	for _, p := range w.peers {
		if !p.up || !p.Serves(pos) {
			continue
		}
		ok := true
		for s := range suffix + 1 {
			key := string(pos[:]) + string([]byte{byte(s)})
			if _, had := p.own[key]; had && s < suffix {
				continue
			}
			w.last++
			value := binary.BigEndian.AppendUint64(nil, w.last)
			p.own[key] = string(append(value, bytes.Repeat([]byte{'x'}, w.rnd.IntN(40))...))
			if ok = p.ship() && ok; ok {
				w.acked[key] = w.last
			}
		}
		return
	}
}

// step does one thing somewhere.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.rnd.IntN(60)) * time.Millisecond)
	p := w.peers[w.rnd.IntN(len(w.peers))]
	switch w.rnd.IntN(8) {
	case 0:
		w.write()
	case 1, 2:
		if p.up {
			p.learn(w.peers[w.rnd.IntN(len(w.peers))].id)
		}
	case 3:
		if p.up {
			p.grow()
		}
	case 4, 5:
		w.deliver()
	default:
		p.tick()
	}
}

func (p *keep) tick() {
	if !p.up {
		return
	}
	w := p.w
	ready, err := p.keeper.Tick(w.now)
	if err != nil && !errors.Is(err, errNet) {
		w.t.Fatal(err)
	}
	for _, call := range ready.Calls {
		p.checkCall(&call)
		w.fly = append(w.fly, &flight{from: p, to: w.peer(call.To), call: call, boot: p.keeper})
	}
	asks, changed, _ := p.settler.Tick(w.now)
	for _, ask := range asks {
		w.fly = append(w.fly, &flight{from: p, to: w.peer(ask.To), ask: ask, boot: p.keeper})
	}
	if changed {
		p.checkSettled()
	}
}
