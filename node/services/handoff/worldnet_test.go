package handoff

import (
	"errors"
	"slices"

	"github.com/apoidea/apoidea/dht/ring"
)

// flight is a push or a question on its way.
type flight struct {
	from, to *keep
	call     Call
	ask      Ask // else a push
	boot     *Keeper
	done     bool // it arrived
	failed   error
	answer   Answer
}

var errNet = errors.New("no answer")

// take merges a push. It is refused unless all of it is this peer's, and if it goes on with a
// position of which the beginning is not here.
func (p *keep) take(from *keep, push Push) error {
	seen := make(map[ring.Pos]bool)
	for _, r := range push.Records {
		pos := ring.Pos(r.Key)
		if p != from && !p.Serves(pos) {
			return errNet
		}
		if _, ok := p.own[string(pos[:])+"\x00"]; !ok && !seen[pos] && r.Key[ring.PosSize] != 0 {
			return errNet
		}
		seen[pos] = true
	}
	for _, r := range push.Records {
		p.own.merge(string(r.Key), string(r.Value))
	}
	if !p.ship() {
		return errNet
	}
	return nil
}

// deliver brings one message on, which may get lost, as may its answer. What was given up may still
// arrive.
func (w *world) deliver() {
	if len(w.late) > 0 && w.rnd.IntN(3) == 0 {
		i := w.rnd.IntN(len(w.late))
		f := w.late[i]
		if w.rnd.IntN(2) == 0 {
			w.late = slices.Delete(w.late, i, i+1)
		}
		if f.to.up {
			_ = f.to.take(f.from, f.call.Push)
		}
	}
	if len(w.fly) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.fly))
	f := w.fly[i]
	if !f.done {
		f.done = true
		if f.to != f.from && w.rnd.Float64() < w.loss {
			f.failed = errNet
			if f.ask.ID == 0 && f.to.up {
				w.late = append(w.late, f)
			}
		} else {
			f.arrive()
		}
		return
	}
	w.fly = slices.Delete(w.fly, i, i+1)
	if f.to != f.from && w.rnd.Float64() < w.loss {
		f.failed, f.answer = errNet, NotYet
	}
	if f.from.up && f.boot == f.from.keeper {
		f.end()
	}
}

func (f *flight) arrive() {
	switch {
	case !f.to.up || f.from == f.to && f.boot != f.to.keeper:
		f.failed = errNet
	case f.ask.ID > 0:
		f.answer = Answers(f.from.id, f.ask.Arc, f.to, f.to.free(f.ask.Arc))
	default:
		f.failed = f.to.take(f.from, f.call.Push)
	}
}

func (f *flight) end() {
	p := f.from
	if f.ask.ID > 0 {
		p.settler.Result(p.w.now, f.ask.ID, f.answer)
		return
	}
	drops, err := p.keeper.Result(f.call.ID, f.failed)
	if err != nil && !errors.Is(err, errNet) {
		p.w.t.Fatal(err)
	}
	for _, d := range drops {
		if c := p.copies[d.Source]; c != nil {
			c.drop(d.Lo, d.Hi)
		}
		if source := p.w.peer(d.Source); source.up {
			delete(source.level, p.id)
		}
	}
}
