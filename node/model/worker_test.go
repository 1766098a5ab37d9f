package model

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// worker is a worker of the only host: a lease with a deadline, a queue, and reports that nobody has acknowledged.
type worker struct {
	i           int
	up, paused  bool
	incarnation uint64
	target      int // the peer it speaks with of the host, -1 if it knows none
	lease       *lease
	reports     []*wire.Fetched
	offered     [most]bool
	links       [most]workerLink
}

// workerLink is where a worker stands with one owner.
type workerLink struct {
	seq, ack uint64
	busy     bool
	sent     time.Time
}

type lease struct {
	epoch *wire.Epoch
	until time.Time
	queue []task
	more  bool
}

type task struct {
	url   string
	depth uint32
	tries uint32
}

// writes says whether the worker may write a request now.
func (k *worker) writes(w *world) bool {
	return k.up && k.lease != nil && (w.rules.stubborn || w.now.Before(k.lease.until))
}

// speaks says whether the worker has anything to say to a peer: news, or a renewal now and then.
func (k *worker) speaks(w *world, to int) bool {
	l := &k.links[to]
	if !k.up || k.paused || l.busy {
		return false
	}
	if k.offered[to] && k.lease == nil {
		return true
	}
	return k.target == to && (len(k.reports) > 0 || k.lease != nil && (len(k.lease.queue) == 0 || w.now.Sub(l.sent) >= quantum))
}

// say makes a session. Giving a host back, the worker stops before it says so.
func (k *worker) say(w *world, to int) {
	l := &k.links[to]
	l.seq++
	l.busy, l.sent = true, w.now
	m := &wire.Session{Incarnation: k.incarnation, Capacity: 100, Seq: l.seq, Ack: l.ack}
	work := &wire.HostWork{Host: host, Fetched: slices.Clone(k.reports)}
	switch {
	case k.lease != nil:
		work.Epoch = k.lease.epoch
		m.Held = []*wire.HostLease{{Host: host, Epoch: k.lease.epoch}}
		switch {
		case len(k.lease.queue) > 0:
		case k.lease.more:
			work.Want = 2
		default:
			work.Release = true
			k.lease = nil
		}
	case k.offered[to]:
		work.Want = 2
	}
	k.offered[to] = false
	m.Hosts = []*wire.HostWork{work}
	w.send(&msg{kind: session, from: k.i, to: to, id: l.seq, boot: k.incarnation, session: m})
}

// hear takes the answer to a session.
func (k *worker) hear(w *world, m *msg) {
	l := &k.links[m.from]
	if k.incarnation != m.boot || !l.busy || l.seq != m.id {
		return // it has given up waiting
	}
	l.busy, l.ack = false, m.id
	r := m.reply
	moved, refused, revoked := slices.Contains(r.GetMoved(), host), slices.Contains(r.GetRefused(), host), slices.Contains(r.GetRevoked(), host)
	work := m.session.GetHosts()[0]
	if !moved && !refused {
		for _, f := range work.GetFetched() {
			w.ack("outcome of " + string(f.GetUrl()))
			for _, k := range f.GetLinks() {
				w.ack(string(k))
			}
		}
		k.reports = slices.DeleteFunc(slices.Clone(k.reports), func(f *wire.Fetched) bool { return slices.Contains(work.GetFetched(), f) })
	}
	until := l.sent.Add(stopAfter)
	held := k.lease != nil && len(m.session.GetHeld()) > 0 && epochOf(m.session.GetHeld()[0].GetEpoch()) == epochOf(k.lease.epoch)
	switch {
	case moved:
		k.follow(w, m.from)
	case held && revoked:
		k.lease = nil
	case held && !refused:
		k.lease.until = until
	}
	for _, g := range r.GetGrants() {
		if k.lease == nil {
			k.lease, k.target = &lease{until: until}, m.from
		}
		k.lease.epoch, k.lease.more = g.GetEpoch(), g.GetMore()
		for i, url := range g.GetUrl() {
			k.lease.queue = append(k.lease.queue, task{string(url), g.GetDepth()[i], uint32(g.GetTries()[i])})
		}
	}
}

type epoch struct {
	counter uint64
	peer    string
}

func epochOf(e *wire.Epoch) epoch { return epoch{e.GetCounter(), string(e.GetPeer())} }

// giveUp ends the wait for an answer; a peer that is not there is not the one to speak with.
func (k *worker) giveUp(m *msg, answered bool) {
	to := m.to
	if answered {
		to = m.from
	}
	if l := &k.links[to]; k.incarnation == m.boot && l.seq == m.id {
		l.busy = false
		if w := current; !w.peers[to].up {
			k.follow(w, to)
		}
	}
}

// follow finds whoever serves the host now.
func (k *worker) follow(w *world, not int) {
	for _, p := range w.peers {
		if p.i != not && p.running() && p.seat.Mine(hostKey) {
			k.target = p.i
			return
		}
	}
}

// fetch gets a page of the queue.
func (k *worker) fetch(w *world) {
	t := k.lease.queue[0]
	k.lease.queue = k.lease.queue[1:]
	f := &wire.Fetched{
		Job: theJob.ID[:], Url: []byte(t.url), Depth: t.depth, Outcome: uint32(link.OutcomeOK), Status: 200, Size: 100, DurationMs: 1,
		FetchedMs: w.now.UnixMilli(), RecordId: []byte("0123456789abcde" + string(rune('0'+k.i))),
	}
	if t.url == urls[0] {
		f.Links = [][]byte{[]byte(urls[1])}
	}
	k.reports = append(k.reports, f)
}

// crash ends a worker's process.
func (k *worker) crash() {
	*k = worker{i: k.i, incarnation: k.incarnation, target: -1}
}

func (k *worker) restart() {
	k.up = true
	k.incarnation++
}
