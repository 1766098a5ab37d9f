package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/ownertest"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/dht/ring"
)

// The invariants, by name.
const (
	oneCrawler  = "one crawler a host"
	nothingLost = "nothing lost"
	oneOwner    = "one serving owner"
	oneWrite    = "an outcome and its links are one write"
	booksAddUp  = "books add up"
	comesToRest = "comes to rest"
)

// broken is an invariant that does not hold.
type broken struct{ rule, what string }

func (b *broken) Error() string { return b.rule + ": " + b.what }

func breaks(rule, format string, args ...any) error {
	return &broken{rule, fmt.Sprintf(format, args...)}
}

// check holds what must always be.
func (w *world) check() error {
	var writers []int
	for _, k := range w.workers {
		if k.writes(w) {
			writers = append(writers, k.i)
		}
	}
	if len(writers) > 1 && !w.rules.parted {
		return breaks(oneCrawler, "workers %v may write requests", writers)
	}
	if owners := w.owners(); len(owners) > 1 && !w.rules.parted {
		return breaks(oneOwner, "%v serve the host", owners)
	}
	for _, what := range w.acked {
		if !w.lies(what) {
			return breaks(nothingLost, "%s is on no disk", what)
		}
	}
	for _, p := range w.peers {
		// Of a host that comes in parts the beginning is here first; its sender keeps the whole.
		if w.rules.part == 0 && p.disk != nil && p.disk.has("outcome of "+urls[0]) && !p.disk.has(urls[1]) {
			return breaks(oneWrite, "%d has the outcome of a page without its link", p.i)
		}
		if !p.up || !w.owned[p.i] {
			continue
		}
		if err := ownertest.Check(p.proc.owner); err != nil {
			return breaks(booksAddUp, "%d: %v", p.i, err)
		}
		if t := p.proc.owner.Totals(); t.URLsSeen != t.URLsPending+t.URLsLeased+t.URLsWaiting+t.Pages+t.Duplicates+t.Redirects+t.Errors+t.RobotsDenied {
			return breaks(booksAddUp, "%d: %+v", p.i, t)
		}
	}
	return nil
}

// owners are the peers that run and serve the host.
func (w *world) owners() (list []int) {
	for _, p := range w.peers {
		if p.running() && p.seat.Mine(hostKey) {
			list = append(list, p.i)
		}
	}
	return list
}

// lies says whether something acknowledged is on some disk.
func (w *world) lies(what string) bool {
	return slices.ContainsFunc(w.peers, func(p *pc) bool { return p.disk != nil && p.disk.has(what) })
}

// entryTails end the keys of the URLs, see crawl/owner, keys.go.
var entryTails = func() map[string]string {
	tails := make(map[string]string)
	for _, url := range urls {
		hash := link.Hash(theJob.ID, url)
		tail := string(hostPos[:]) + "u" + string(theJob.ID[:])
		for shift := 56; shift >= 0; shift -= 8 {
			tail += string([]byte{byte(hash >> shift)})
		}
		tails[url] = tail
	}
	return tails
}()

// has says whether a URL, or that it was fetched, is on a disk, as own or as a copy.
func (d *disk) has(what string) bool {
	url, done := strings.CutPrefix(what, "outcome of ")
	tail := entryTails[url]
	for _, r := range d.records {
		if strings.HasSuffix(r.key, tail) && (!done || r.value[1] == 1 && link.Outcome(r.value[2]) == link.OutcomeOK) {
			return true
		}
	}
	return false
}

// rest lets the faults end and everything come to rest, and holds that all is with its owner.
func (w *world) rest() error {
	w.left = budget{}
	for i := range w.peers {
		p := w.mine(i)
		switch {
		case p.paused:
			w.wake(p)
		case !p.up && p.disk != nil:
			w.start(p.i)
			w.drive(p)
		}
	}
	for _, k := range w.workers {
		k.paused = false
		if !k.up {
			k.restart()
		}
	}
	for range 60 {
		for _, p := range w.peers {
			for q := range w.peers {
				if p.running() && q != p.i && p.seat.view[q] != w.truth[q] {
					w.learn(p, q, w.truth[q])
				}
			}
		}
		for n := 0; len(w.msgs) > 0; n++ {
			if n > 5000 {
				return breaks(comesToRest, "messages without end: %v", w.msgs)
			}
			w.deliver(n % len(w.msgs))
			if err := w.check(); err != nil {
				return err
			}
		}
		if w.atRest() == nil {
			return nil
		}
		for _, k := range w.workers {
			for len(k.window) > 0 && k.writes(w) {
				k.fetch(w)
			}
			for to := range w.peers {
				if k.speaks(w, to) {
					k.say(w, to)
				}
			}
		}
		w.pass(quantum / 2)
		if err := w.check(); err != nil {
			return err
		}
	}
	return w.atRest()
}

// atRest says what is still to come, or wrong.
func (w *world) atRest() error {
	var owner *pc
	for _, p := range w.peers {
		if !p.up {
			continue
		}
		if !p.proc.keeper.Clean() || p.seat.serves && !p.proc.settler.All() {
			return breaks(comesToRest, "%d: clean %v, settled %v, serves %v", p.i, p.proc.keeper.Clean(), p.proc.settler.All(), p.seat.serves)
		}
		if level, all := p.proc.source.Level(); level != all || len(p.proc.parked) > 0 {
			return breaks(comesToRest, "%d: %d of %d followers level, %d steps wait", p.i, level, all, len(p.proc.parked))
		}
		if p.seat.Mine(hostKey) {
			if owner != nil {
				return breaks(comesToRest, "%d and %d serve the host", owner.i, p.i)
			}
			owner = p
		}
	}
	if owner == nil {
		return breaks(comesToRest, "nobody serves the host")
	}
	return w.allAt(owner)
}

// allAt holds that the owner of the host has all that was acknowledged, that it is crawled, and
// that nobody else has it as their own.
func (w *world) allAt(owner *pc) error {
	for _, url := range urls {
		state := "unknown"
		for _, f := range owner.proc.owner.Why(url) {
			state = f.State
		}
		for _, what := range []string{url, "outcome of " + url} {
			if slices.Contains(w.acked, what) && (state == "unknown" || what != url && state != "done") {
				return breaks(nothingLost, "%s is acknowledged, and %s at %d in the end", what, state, owner.i)
			}
		}
		if state != "unknown" && state != "done" {
			return breaks(comesToRest, "%s is %s", url, state)
		}
	}
	for _, p := range w.peers {
		if p == owner || !p.up {
			continue
		}
		if _, ok, _ := (hostSpace{p: p, head: []byte{'h'}}).Next(ring.Pos{}); ok {
			return breaks(comesToRest, "%d keeps the host, which is %d's", p.i, owner.i)
		}
	}
	return nil
}
