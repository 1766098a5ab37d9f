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
	// smallState is the encoded size up to which the state of an origin's robots.txt is always kept;
	// larger ones have mostStates in all. Hosts whose state does not fit are given back for roomPause:
	// owners store the state.
	smallState = 4 << 10
	mostStates = 16 << 20
	roomPause  = 5 * time.Second
	// mostLearnt bounds the bytes of states beyond mostStates that owners have not received yet; at
	// the bound no exchange begins.
	mostLearnt = 8 << 20
	// mostDigests bounds the states that a worker recognizes as its own, some megabytes.
	mostDigests = 30_000
	// mostRules bounds the memory of parsed rules. The least recently used are evicted; parsing them
	// again takes milliseconds.
	mostRules = 8 << 20
	// noRoom is the reason for giving back a host whose robots.txt exceeds what is left of mostStates.
	noRoom = "its robots.txt exceeds the memory limit"

	// notTaken is the reason for giving back, for notTakenPause, a host granted for a job that this
	// peer does not accept.
	notTaken      = "its worker does not accept the job"
	notTakenPause = time.Minute
)

// shelf caches states and parsed rules of robots.txt: a worker holds a thousand hosts, and a file
// of 500 KiB yields megabytes of rules.
type shelf struct {
	learnt *aging.Map[digest, struct{}] // of the states that this worker made itself
	states int                          // bytes of states that are not small
	rules  list.List                    // of *madeRules, most recently used first
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

// learn records that this worker made a state itself.
func (s *shelf) learn(o *origin, encoded []byte) {
	s.learnt.Set(digestOf(o.name, encoded), struct{}{})
}

// lent returns the usable part of a state that comes with a grant; nothing where it encodes to nil.
// A state that this worker made itself is valid as it is. An owner could have forged any other, so
// the file is fetched again; but a site that requested a backoff, or was unavailable, is deferred
// for up to a day.
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
	state.UnreachableSince = now // this worker measures the duration itself
	encoded, _ = state.MarshalBinary()
	return state, encoded
}

// take stores the state of an origin, in place of its previous one, if it fits. A state that does
// not fit is stored only if it must be, and is counted nevertheless.
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

// forget drops everything cached of an origin, for good. It reports whether exchanges wait for
// that.
func (s *shelf) forget(o *origin) (awaited bool) {
	s.drop(o)
	before := s.full()
	s.states -= o.counted
	o.counted, o.gone = 0, true
	return before && !s.full()
}

// full reports whether owners must first receive states for which there is no memory.
func (s *shelf) full() bool { return s.states > mostStates+mostLearnt }

// get returns the rules of an origin, nil if they are not cached.
func (s *shelf) get(o *origin) *robots.Rules {
	if o.place == nil {
		return nil
	}
	s.rules.MoveToFront(o.place)
	return o.place.Value.(*madeRules).rules
}

// keep caches the rules parsed from an origin's state.
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

// drop evicts the rules of an origin.
func (s *shelf) drop(o *origin) {
	if o.place == nil {
		return
	}
	s.made -= s.rules.Remove(o.place).(*madeRules).rules.Size()
	o.place = nil
}
