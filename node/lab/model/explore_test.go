package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// choice is one thing that may happen next.
type choice struct {
	name string
	do   func(*world)
}

// choices lists what may happen, messages first.
func (w *world) choices() (list []choice) {
	add := func(do func(*world), format string, args ...any) {
		list = append(list, choice{fmt.Sprintf(format, args...), do})
	}
	for i, m := range w.msgs {
		running, up := w.receiver(m)
		if running || !up {
			add(func(w *world) { w.deliver(i) }, "deliver %s", m)
		}
		if up && m.kind != failure && (w.left.lose > 0 || !running) && !slices.Contains(w.rules.prompt, m.kind) {
			add(func(w *world) {
				if running {
					w.left.lose--
				}
				w.lose(i)
			}, "lose %s", m)
			if m.kind == ship && running {
				add(func(w *world) {
					w.left.lose--
					m := w.drop(i)
					w.shipTo(m, true)
					w.drive(w.mine(m.to))
					w.drive(w.mine(m.from))
				}, "lose the answer to %s", m)
			}
		}
	}
	for i := range w.workers {
		w.workerChoices(i, add)
	}
	for i := range w.peers {
		w.peerChoices(i, add)
	}
	if w.left.time > 0 && w.mayPass() {
		add(func(w *world) {
			w.left.time--
			w.pass(quantum)
		}, "%v pass", quantum)
	}
	return list
}

type adder func(do func(*world), format string, args ...any)

func (w *world) workerChoices(i int, add adder) {
	k := w.workers[i]
	if !k.paused && len(k.window) > 0 && k.writes(w) {
		add(func(w *world) { w.workers[i].fetch(w) }, "worker %d fetches %s", i, k.window[0].URL)
	}
	for to := range w.peers {
		if k.speaks(w, to) {
			add(func(w *world) { w.workers[i].say(w, to) }, "worker %d speaks to %d", i, to)
		}
	}
	switch {
	case k.up && k.paused:
		add(func(w *world) { w.workers[i].paused = false }, "worker %d wakes", i)
	case k.up:
		if w.left.pauseWorker > 0 {
			add(func(w *world) {
				w.left.pauseWorker--
				w.workers[i].paused = true
			}, "worker %d pauses", i)
		}
		if w.left.crashWorker > 0 {
			add(func(w *world) {
				w.left.crashWorker--
				w.workers[i].crash()
			}, "worker %d crashes", i)
		}
	case !k.up:
		add(func(w *world) { w.workers[i].restart() }, "worker %d starts again", i)
	}
}

func (w *world) peerChoices(i int, add adder) {
	p := w.peers[i]
	spend := func(of func(*budget) *int, do func(*world, *pc), format string, args ...any) {
		if *of(&w.left) > 0 {
			add(func(w *world) {
				*of(&w.left)--
				do(w, w.mine(i))
			}, format, args...)
		}
	}
	switch {
	case p.up && p.paused:
		add(func(w *world) { w.wake(w.mine(i)) }, "%d wakes", i)
	case p.up:
		w.running(i, spend)
	case p.disk != nil:
		spend(func(b *budget) *int { return &b.restart }, func(w *world, p *pc) {
			w.start(p.i)
			w.drive(p)
		}, "%d starts again", i)
	case p.disk == nil && p.boot > 0:
		spend(func(b *budget) *int { return &b.replace }, func(w *world, p *pc) {
			w.start(p.i)
			w.drive(p)
		}, "%d starts again with a new disk", i)
	case p.boot == 0:
		spend(func(b *budget) *int { return &b.join }, func(w *world, p *pc) {
			w.start(p.i)
			w.drive(p)
		}, "%d joins", i)
	}
	if !p.running() {
		return
	}
	for q := range w.peers {
		switch {
		case q == i:
		case p.seat.view[q] != w.truth[q]:
			add(func(w *world) { w.learn(w.mine(i), q, w.truth[q]) }, "%d learns of %d", i, q)
		case p.seat.view[q] == member && w.peers[q].paused:
			spend(func(b *budget) *int { return &b.suspect }, func(w *world, p *pc) { w.learn(p, q, absent) }, "%d gives up %d, which is paused", i, q)
		case p.seat.view[q] == member:
			spend(func(b *budget) *int { return &b.doubt }, func(w *world, p *pc) { w.learn(p, q, absent) }, "%d gives up %d, which lives", i, q)
		}
	}
}

// running is what may happen to a peer that runs.
func (w *world) running(i int, spend func(of func(*budget) *int, do func(*world, *pc), format string, args ...any)) {
	p := w.peers[i]
	others := 0
	for j, q := range w.peers {
		if j != i && q.up && w.truth[j] == member {
			others++
		}
	}
	if p.seat.Mine(hostKey) {
		spend(func(b *budget) *int { return &b.post }, func(w *world, p *pc) { w.post(p) }, "%d is given a URL", i)
	}
	spend(func(b *budget) *int { return &b.crash }, func(w *world, p *pc) { w.crash(p, false) }, "%d crashes", i)
	if others > 0 {
		spend(func(b *budget) *int { return &b.wipe }, func(w *world, p *pc) { w.crash(p, true) }, "%d loses its disk", i)
	}
	spend(func(b *budget) *int { return &b.pause }, func(_ *world, p *pc) { p.paused = true }, "%d pauses", i)
	if others > 0 && p.seat.state == serving {
		spend(func(b *budget) *int { return &b.leave }, func(w *world, p *pc) { w.leave(p) }, "%d leaves", i)
	}
}

// found is a row of steps that broke an invariant.
type found struct {
	rule  string
	what  string
	steps []string
}

func (f *found) String() string {
	return fmt.Sprintf("%s: %s\n  %s", f.rule, f.what, strings.Join(f.steps, "\n  "))
}

// explorer follows all rows of steps from a beginning.
type explorer struct {
	begin *world
	depth int
	seen  map[uint64]int // worlds, and how many steps were left there
	limit int            // of worlds
	ends  int            // how many of the rows are followed to their rest: every so many-th
	until time.Time      // no new worlds after; zero: no bound

	steps  []string
	worlds int
	leaves int
	cut    bool
}

// explore returns the first row that breaks an invariant.
func (e *explorer) explore() *found {
	e.seen = make(map[uint64]int)
	if err := e.begin.check(); err != nil {
		return e.found(err)
	}
	return e.follow(clone(e.begin), e.depth)
}

func (e *explorer) found(err error) *found {
	f := &found{rule: "?", what: err.Error(), steps: append([]string{}, e.steps...)}
	if b, ok := errors.AsType[*broken](err); ok {
		f.rule, f.what = b.rule, b.what
	}
	return f
}

func (e *explorer) follow(w *world, depth int) *found {
	current = w
	list := w.choices()
	if depth == 0 || len(list) == 0 {
		e.leaves++
		if e.ends > 0 && e.leaves%e.ends == 0 {
			current = clone(w)
			if err := current.rest(); err != nil {
				return e.found(err)
			}
		}
		return nil
	}
	for _, c := range list {
		if e.worlds >= e.limit || !e.until.IsZero() && time.Now().After(e.until) {
			e.cut = true
			return nil
		}
		next := clone(w)
		current = next
		e.steps = append(e.steps, c.name)
		if f := e.step(next, c, depth); f != nil {
			return f
		}
		e.steps = e.steps[:len(e.steps)-1]
	}
	return nil
}

// walk follows one row of steps chosen at random, and then the rest.
func (e *explorer) walk(rnd *rand.Rand, steps int) *found {
	w := e.begin
	current = w
	for range steps {
		list := w.choices()
		if len(list) == 0 {
			break
		}
		c := list[rnd.IntN(len(list))]
		e.steps = append(e.steps, c.name)
		c.do(w)
		w.rush()
		if err := w.check(); err != nil {
			return e.found(err)
		}
	}
	if err := w.rest(); err != nil {
		return e.found(err)
	}
	return nil
}

// after is the world behind a row of steps by name, of which each has to be there.
func after(begin *world, steps []string) *world {
	w := clone(begin)
	current = w
	for _, name := range steps {
		list := w.choices()
		list[slices.IndexFunc(list, func(c choice) bool { return c.name == name })].do(w)
		w.rush()
	}
	return w
}

// again follows a row of steps by name, past those that are not to be had, and says what it broke.
func again(begin *world, steps []string) *found {
	e := &explorer{}
	w := clone(begin)
	current = w
	for _, name := range steps {
		list := w.choices()
		i := slices.IndexFunc(list, func(c choice) bool { return c.name == name })
		if i < 0 {
			continue
		}
		e.steps = append(e.steps, name)
		list[i].do(w)
		w.rush()
		if err := w.check(); err != nil {
			return e.found(err)
		}
	}
	if err := w.rest(); err != nil {
		return e.found(err)
	}
	return nil
}

// shrink leaves out of a row of steps what it does not need to break the same rule.
func shrink(begin *world, f *found) *found {
	for n := max(len(f.steps)/2, 1); n > 0; n /= 2 {
		for i := 0; i+n <= len(f.steps); {
			if g := again(begin, slices.Delete(slices.Clone(f.steps), i, i+n)); g != nil && g.rule == f.rule {
				f = g
			} else {
				i++
			}
		}
	}
	return f
}

func (e *explorer) step(next *world, c choice, depth int) *found {
	c.do(next)
	next.rush()
	e.worlds++
	if err := next.check(); err != nil {
		return e.found(err)
	}
	world := fingerprint(next)
	if left, ok := e.seen[world]; ok && left >= depth-1 {
		return nil
	}
	e.seen[world] = depth - 1
	return e.follow(next, depth-1)
}
