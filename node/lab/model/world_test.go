package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/handoff"
)

const (
	// ttl of a lease.
	ttl = 8 * time.Second
	// quantum is how far the time goes in one step.
	quantum = 2 * time.Second
)

// begun is when every world begins.
var begun = time.Unix(1e9, 0)

// urls are what there is to crawl: the first is posted, and its page links to the others.
var urls = []string{"http://" + host + "/0", "http://" + host + "/1"}

// rules are what a row of steps is explored under. The last ones take a guard out, to see the model
// fail.
type rules struct {
	replicas int    // r
	prompt   []kind // messages that arrive at once and are never lost, which leaves more steps for the others
	part     int    // bytes of a push; 0: the default
	notes    bool   // leases go along with the hosts that move
	// parted: peers that take each other for dead may do so for as long as they like, as if the net
	// between them were cut. Then each serves for itself, and nothing is held of who crawls
	// meanwhile. Else those that both run find each other again before a fence falls, as in package
	// dht.
	parted bool

	unsettled bool // hosts of an arc are granted before their records have all come
	ackAlone  bool // answers do not wait for the replicas
	greedy    bool // a peer serves a dead one's arc at once
	drowsy    bool // a peer that was paused goes on as before
	loyal     bool // a follower takes what its source sends although it serves the source's arc
	forgetful bool // records are removed although the push failed
	stubborn  bool // a worker goes on after its deadline
	hasty     bool // the leases of records that were taken over are not waited out
	rash      bool // a peer that lost its records ships what it has before it has pulled them
	split     bool // each record is shipped by itself
}

// world is everything there is at a moment. It is plain data, see clone.
type world struct {
	rules   *rules
	now     time.Time
	truth   [most]standing
	peers   []*pc
	owned   [most]bool // peers that are no other world's as well
	workers []*worker
	msgs    []*msg
	acked   []string        // URLs and outcomes that somebody was told are safe
	wrong   [most][most]int // for how many quanta a peer has taken another for dead, while both ran
	left    budget
}

// budget is what may still go wrong, or happen.
type budget struct {
	time, lose, crash, wipe, restart, replace, pause, pauseWorker, crashWorker, suspect, doubt, join, leave, post int
}

// current is the world that is being stepped; what functions captured leads to it.
var current *world

type kind uint8

const (
	ship kind = iota
	push
	pushReply
	ask
	askReply
	pull
	pullReply
	offer
	sessionCall
	sessionReply
	postReply
	failure // of another message, for a sender that was paused
)

var kindNames = []string{"ship", "push", "push reply", "ask", "ask reply", "pull", "pull reply", "offer", "session", "session reply", "post reply", "failure"}

// msg is on its way. Nothing in it changes.
type msg struct {
	kind     kind
	from, to int // peers; of offer, sessionCall and sessionReply the worker's side is a worker
	id       uint64
	boot     uint64 // of the asking process
	raw      []byte
	push     *handoff.Push
	arc      ring.Arc
	failed   bool
	answer   handoff.Answer
	session  *wire.Session
	reply    *wire.SessionReply
	of       *msg
}

func (m *msg) String() string {
	return fmt.Sprintf("%s %d->%d #%d", kindNames[m.kind], m.from, m.to, m.id)
}

func (m *msg) compare(o *msg) int {
	return cmp.Or(cmp.Compare(m.kind, o.kind), cmp.Compare(m.from, o.from), cmp.Compare(m.to, o.to), cmp.Compare(m.id, o.id), cmp.Compare(m.boot, o.boot))
}

func newWorld(r *rules, workers int) *world {
	w := &world{rules: r, now: begun}
	current = w
	for i := range most {
		w.peers = append(w.peers, &pc{i: i, seat: &seat{i: i}})
	}
	for i := range workers {
		w.workers = append(w.workers, newWorker(i))
	}
	return w
}

// send puts a message on its way; an older one of the same kind and call is the same.
func (w *world) send(m *msg) {
	i, found := slices.BinarySearchFunc(w.msgs, m, (*msg).compare)
	if found {
		if m.kind != offer {
			panic("model: twice " + m.String())
		}
		return
	}
	w.msgs = slices.Insert(w.msgs, i, m)
}

// rush delivers what arrives at once.
func (w *world) rush() {
	for i := 0; i < len(w.msgs); {
		m := w.msgs[i]
		if running, up := w.receiver(m); slices.Contains(w.rules.prompt, m.kind) && (running || !up) {
			w.deliver(i)
			i = 0
		} else {
			i++
		}
	}
}

func (w *world) drop(i int) *msg {
	m := w.msgs[i]
	w.msgs = slices.Delete(w.msgs, i, i+1)
	return m
}

// receiver says whether whom a message goes to runs: now, and at all.
func (w *world) receiver(m *msg) (running, up bool) {
	if m.kind == offer || m.kind == sessionReply {
		k := w.workers[m.to]
		return k.up && !k.paused, k.up
	}
	p := w.peers[m.to]
	return p.running(), p.up
}

// deliver brings a message to its receiver, or, if there is none, the failure to its sender.
func (w *world) deliver(i int) {
	m := w.drop(i)
	if m.kind == failure {
		w.fail(m.of)
		return
	}
	if _, up := w.receiver(m); !up {
		w.fail(m)
		return
	}
	switch m.kind {
	case ship:
		w.shipTo(m, false)
	case push:
		w.pushTo(m)
	case pushReply:
		w.pushed(w.mine(m.to), m.id, errIf(m.failed))
	case ask:
		p := w.peers[m.to]
		free := p.proc.free(m.arc)
		answer := handoff.Answers(places[m.from].id, m.arc, p.seat, free)
		if p.seat.state == joining && free { // it keeps nobody waiting for what is its own
			answer = handoff.Nothing
		}
		w.send(&msg{kind: askReply, from: m.to, to: m.from, id: m.id, boot: m.boot, answer: answer})
	case askReply:
		w.mine(m.to).proc.settler.Result(w.now, m.id, m.answer)
	case pull:
		w.pullFrom(m)
	case pullReply:
		w.pulled(w.mine(m.to), m)
	case offer:
		w.workers[m.to].offer(w, m.from)
	case sessionCall:
		w.sessionTo(m)
	case sessionReply:
		w.workers[m.to].hear(w, m)
	case postReply:
		if !m.failed {
			w.ack(urls[0])
		}
	}
	if m.kind != offer && m.kind != sessionReply && m.kind != postReply {
		w.drive(w.mine(m.to))
	}
	if m.kind == ship {
		w.drive(w.mine(m.from))
	}
}

func errIf(failed bool) error {
	if failed {
		return errAway
	}
	return nil
}

// lose has a message come to nothing; whoever waits for an answer gives up.
func (w *world) lose(i int) { w.fail(w.drop(i)) }

// fail tells the one who asked, if it is the same process, that there is no answer.
func (w *world) fail(m *msg) {
	asker, isReply := m.from, false
	switch m.kind {
	case pushReply, askReply, pullReply, sessionReply:
		asker, isReply = m.to, true
	case offer, postReply:
		return
	default:
	}
	switch m.kind {
	case sessionCall, sessionReply:
		w.workers[asker].giveUp(m, isReply)
		return
	default:
	}
	switch p := w.peers[asker]; {
	case !p.up || p.boot != m.boot:
		return
	case p.paused:
		w.send(&msg{kind: failure, from: int(m.kind), to: asker, id: m.id, boot: m.boot, of: m})
		return
	}
	p := w.mine(asker)
	switch m.kind {
	case ship:
		p.proc.source.Result(w.now, m.id, nil, errAway)
	case push, pushReply:
		if w.rules.forgetful {
			w.pushed(p, m.id, nil)
		} else {
			w.pushed(p, m.id, errAway)
		}
	case pull:
		p.proc.pulls[m.to] = pulls{again: w.now.Add(time.Second)}
	case pullReply:
		p.proc.pulls[m.from] = pulls{again: w.now.Add(time.Second)}
	default:
		p.proc.settler.Result(w.now, m.id, handoff.NotYet)
	}
	w.drive(p)
}

// shipTo brings a message of a source to its follower and the answer back at once: both orders of
// what they do meanwhile come to the same, as each has one message of the other under way. With
// lost the answer does not arrive.
func (w *world) shipTo(m *msg, lost bool) {
	from, to := w.mine(m.from), w.mine(m.to)
	var reply []byte
	err := errMoved
	if w.rules.loyal || !to.seat.Serves(ring.PosOf(places[m.from].key)) || to.seat.Departs(places[m.from].id) {
		if reply, _, err = to.proc.copies.Handle(string(places[m.from].id), m.raw); err != nil {
			panic(err)
		}
	}
	if !from.up || from.boot != m.boot {
		return
	}
	if lost {
		err = errAway
	}
	x := from.proc
	if errors.Is(err, errMoved) {
		x.deposed[m.to] = slices.Contains(x.names, string(places[m.to].id)) // who follows no more has no say
	} else if err == nil {
		x.deposed[m.to] = false
	}
	x.source.Result(w.now, m.id, reply, err)
}

var errMoved = errors.New("another peer serves your arc")

// pushTo merges a push if all of it is the receiver's; it answers when that is safe.
func (w *world) pushTo(m *msg) {
	p := w.mine(m.to)
	reply := &msg{kind: pushReply, from: m.to, to: m.from, id: m.id, boot: m.boot}
	for _, r := range m.push.Records {
		reply.failed = reply.failed || !p.seat.Serves(ring.Pos(r.Key[1:]))
	}
	if reply.failed {
		w.send(reply)
		return
	}
	w.step(p, func(o *owner.Owner) { reply.failed = w.take(p, o, m.push) != nil }, reply)
}

// sessionTo has the owner answer a worker.
func (w *world) sessionTo(m *msg) {
	p := w.mine(m.to)
	reply := &msg{kind: sessionReply, from: m.to, to: m.from, id: m.id, boot: m.boot, session: m.session}
	w.step(p, func(o *owner.Owner) { reply.reply = o.Session(workerName(m.from), m.session) }, reply)
}

// post gives the first URL to a peer that serves its host.
func (w *world) post(p *pc) {
	url := urls[0]
	links := &wire.Links{Rules: link.RulesVersion, JobIds: [][]byte{theJob.ID[:]}, Url: [][]byte{[]byte(url)}, Job: []uint32{0}, Depth: []uint32{0}}
	reply := &msg{kind: postReply, from: p.i, to: p.i, boot: p.boot}
	w.step(p, func(o *owner.Owner) {
		r := o.Links(links)
		reply.failed = len(r.GetMoved())+len(r.GetBusy()) > 0
	}, reply)
	w.drive(p)
}

func (w *world) ack(what string) {
	if !slices.Contains(w.acked, what) {
		w.acked = append(w.acked, what)
		slices.Sort(w.acked)
	}
}

// misled says whether one peer takes another for dead, while both run.
func (w *world) misled(p, q int) bool {
	return w.peers[p].running() && w.peers[q].running() && w.truth[q] == member && w.peers[p].seat.view[q] == absent
}

// mayPass says whether the time may go on: not while somebody who is there has been taken for dead
// for a while.
func (w *world) mayPass() bool {
	for p := range most {
		for q := range most {
			if w.wrong[p][q] >= maxWrong && w.misled(p, q) {
				return w.rules.parted
			}
		}
	}
	return true
}

// maxWrong in quanta is less than a fence stands.
const maxWrong = 2

// pass lets the time go on. Who is paused does not notice.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for p := range most {
		for q := range most {
			if w.misled(p, q) {
				w.wrong[p][q] = min(w.wrong[p][q]+1, maxWrong)
			} else if w.truth[q] != member || w.peers[p].seat.view[q] != absent {
				w.wrong[p][q] = 0
			}
		}
	}
	for i, p := range w.peers {
		if p.running() {
			w.drive(w.mine(i))
		}
	}
	for _, k := range w.workers {
		k.watch(w)
	}
}

// crash ends a process; what it sent may still arrive.
func (w *world) crash(p *pc, wipe bool) {
	waiting := p.proc.parked
	p.up, p.paused, p.proc = false, false, nil
	p.seat = &seat{i: p.i}
	w.truth[p.i] = absent
	if wipe {
		p.disk = nil
	}
	for i, m := range slices.Backward(w.msgs) { // nobody is left to hear it
		if (m.kind == pushReply || m.kind == askReply || m.kind == pullReply || m.kind == postReply || m.kind == failure) && m.to == p.i {
			w.drop(i)
		}
	}
	for _, out := range waiting {
		for _, m := range out.msgs {
			w.fail(m)
		}
	}
}

// wake lets a paused process go on. It looks at the clock before anything else.
func (w *world) wake(p *pc) {
	p.paused = false
	if w.now.Sub(p.woke) > quantum && !w.rules.drowsy {
		p.seat.rejoin(w.now)
	}
	w.drive(p)
}

func (w *world) learn(p *pc, i int, what standing) {
	p.seat.learn(i, what, w.now)
	if w.rules.greedy {
		p.seat.fences[i] = time.Time{}
	}
	w.drive(p)
}

func (w *world) leave(p *pc) {
	w.truth[p.i] = leaving
	p.seat.view[p.i], p.seat.state = leaving, left
	p.seat.changes++
	w.drive(p)
}

// choose finds a worker for a host: rather one that holds no lease, which is the one to be caught
// with a second.
func (w *world) choose(p owner.Place) string {
	name := workerName(0)
	for _, k := range w.workers {
		if k.up && !slices.Contains(p.Exclude, workerName(k.i)) {
			if name = workerName(k.i); k.lease() == nil {
				break
			}
		}
	}
	return name
}

func workerName(i int) string { return fmt.Sprintf("worker %d", i) }

func workerNumber(name string) int {
	if i, ok := strings.CutPrefix(name, "worker "); ok {
		return int(i[0] - '0')
	}
	return -1
}
