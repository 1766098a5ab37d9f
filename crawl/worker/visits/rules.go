package visits

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"time"

	"github.com/apoidea/apoidea/crawl/aging"
	"github.com/apoidea/apoidea/crawl/robots"
)

const (
	// smallState is the size up to which what is known of an origin's robots.txt, packed, always
	// has room; larger ones have mostStates in all. Where there is none their hosts are given back
	// for roomPause: owners keep what was learnt.
	smallState = 4 << 10
	mostStates = 16 << 20
	roomPause  = 5 * time.Second
	// mostLearnt is how much more those take at most that were learnt without room, until their
	// owners were told: beyond it no exchange begins.
	mostLearnt = 8 << 20
	// mostDigests is how many states a worker knows again at most as its own, some megabytes.
	mostDigests = 30_000
	// mostRules bounds what the rules made of them take. Those used longest ago go first, and are
	// made again within milliseconds.
	mostRules = 8 << 20
	// noRoom is why a host is given back whose robots.txt is too large for what is left of
	// mostStates.
	noRoom = "there is no room for its robots.txt"

	// notTaken is why a host is given back, for notTakenPause, that was granted for a job which this
	// peer does not work for.
	notTaken      = "its worker does not work for the job"
	notTakenPause = time.Minute
)

// shelf keeps what is read of robots.txt: a worker holds a thousand hosts, and a file of 500 KiB
// makes megabytes of rules.
type shelf struct {
	learnt *aging.Map[digest, struct{}] // of the states that this worker made itself
	states int                          // bytes of states that are not small
	rules  list.List                    // of *madeRules, the ones used last in front
	made   int                          // bytes of those
}

type madeRules struct {
	origin *origin
	rules  *robots.Rules
}

// digest is that of an origin and a state of its robots.txt, encoded.
type digest [sha256.Size]byte

func digestOf(origin string, encoded []byte) digest {
	return sha256.Sum256(append([]byte(origin+" "), encoded...))
}

// learn notes that this worker made a state itself.
func (s *shelf) learn(o *origin, encoded []byte) {
	s.learnt.Set(digestOf(o.name, encoded), struct{}{})
}

// lent is what holds of a state that comes with a grant; nothing where it encodes to nil. One that
// this worker made itself holds as it is. Whoever owns a host could have made up any other, so the
// file is asked for again; but a site that asked for silence, or could not be had, is left alone as
// long as a day.
func (s *shelf) lent(now time.Time, o *origin, raw []byte) (state robots.State, encoded []byte) {
	if state.UnmarshalBinary(raw) != nil {
		return robots.State{}, nil
	}
	if _, own := s.learnt.Get(digestOf(o.name, raw)); own {
		return state, bytes.Clone(raw)
	}
	switch silent := state.NotBefore.After(now); {
	case state.Verdict == robots.DisallowAll:
	case silent && state.Verdict == robots.Obey:
		state.Expires = state.NotBefore
	default:
		return robots.State{}, nil
	}
	latest := now.Add(robots.MaxPause)
	state.Body, state.Fetched = nil, time.Time{}
	state.Expires, state.NotBefore = earliest(state.Expires, latest), earliest(state.NotBefore, latest)
	state.UnreachableSince = now // how long it is so is for this worker to see
	encoded, _ = state.MarshalBinary()
	return state, encoded
}

// take finds room for the state of an origin, in place of the one that it had. A state without room
// is kept only if it must be, and is counted all the same.
func (s *shelf) take(o *origin, encoded []byte, must bool) (room bool) {
	size := len(encoded)
	if size <= smallState {
		size = 0
	}
	s.drop(o)
	s.states -= o.counted
	o.counted, o.encoded = 0, nil
	if o.gone {
		size = 0
	}
	room = size == 0 || s.states+size <= mostStates
	if room || must {
		s.states += size
		o.counted, o.encoded = size, encoded
	}
	return room
}

// forget gives up all that is kept of an origin, for good. It says whether exchanges wait for that.
func (s *shelf) forget(o *origin) (awaited bool) {
	s.drop(o)
	before := s.full()
	s.states -= o.counted
	o.counted, o.gone = 0, true
	return before && !s.full()
}

// full says that so much was learnt without room that owners are to be told first.
func (s *shelf) full() bool { return s.states > mostStates+mostLearnt }

// get returns the rules of an origin, nil if they are not here.
func (s *shelf) get(o *origin) *robots.Rules {
	if o.place == nil {
		return nil
	}
	s.rules.MoveToFront(o.place)
	return o.place.Value.(*madeRules).rules
}

// keep keeps the rules that were made of an origin's state.
func (s *shelf) keep(o *origin, rules *robots.Rules) {
	if o.gone {
		return
	}
	s.drop(o)
	o.place = s.rules.PushFront(&madeRules{o, rules})
	s.made += rules.Size()
	for s.made > mostRules && s.rules.Len() > 1 {
		s.drop(s.rules.Back().Value.(*madeRules).origin)
	}
}

// drop takes the rules of an origin off the list.
func (s *shelf) drop(o *origin) {
	if o.place == nil {
		return
	}
	s.made -= s.rules.Remove(o.place).(*madeRules).rules.Size()
	o.place = nil
}
