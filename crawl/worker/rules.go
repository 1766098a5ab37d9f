package worker

import (
	"container/list"
	"context"
	"sync"
	"time"

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
	// mostRules bounds what the rules made of them take. Those used longest ago go first, and are
	// made again within milliseconds.
	mostRules = 8 << 20
	// largeFile is the size from which on one file is read at once: it takes a processor for some
	// ten milliseconds, and megabytes.
	largeFile = 16 << 10
)

// rulesCache keeps what is read of robots.txt: a worker holds a thousand hosts, and a file of 500
// KiB makes megabytes of rules.
type rulesCache struct {
	slot chan struct{}

	mu     sync.Mutex
	states int       // bytes of states that are not small
	rules  list.List // of *madeRules, the ones used last in front
	made   int       // bytes of those
}

type madeRules struct {
	origin *origin
	rules  *robots.Rules
}

func newRulesCache() *rulesCache { return &rulesCache{slot: make(chan struct{}, 1)} }

// take finds room for the state of an origin, in place of the one that it had. A state without room
// is kept only if it must be, and is counted all the same.
func (s *rulesCache) take(o *origin, encoded []byte, must bool) (room bool) {
	size := len(encoded)
	if size <= smallState {
		size = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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
func (s *rulesCache) forget(o *origin) (awaited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(o)
	before := s.full()
	s.states -= o.counted
	o.counted, o.gone = 0, true
	return before && !s.full()
}

// crowded says that so much was learnt without room that owners are to be told first.
func (s *rulesCache) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full()
}

func (s *rulesCache) full() bool { return s.states > mostStates+mostLearnt }

// get returns the rules of an origin, nil if they are not here.
func (s *rulesCache) get(o *origin) *robots.Rules {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.place == nil {
		return nil
	}
	s.rules.MoveToFront(o.place)
	return o.place.Value.(*madeRules).rules
}

// make makes the rules of an origin and keeps them. The error is that of ctx.
func (s *rulesCache) make(ctx context.Context, o *origin, agent string) (*robots.Rules, error) {
	if o.length < 0 {
		return nil, nil //nolint:nilnil // rules that allow everything: whether anything is allowed is the verdict's to say
	}
	done, err := s.turn(ctx, o.length)
	if err != nil {
		return nil, err
	}
	defer done()
	full, err := o.whole()
	if err != nil {
		return nil, err
	}
	rules := full.Rules(agent)
	s.keep(o, rules)
	return rules, nil
}

// turn waits until a file of so many bytes may be read, which ends with done. The error is that of
// ctx.
func (s *rulesCache) turn(ctx context.Context, length int) (done func(), err error) {
	if length < largeFile {
		return func() {}, nil
	}
	select {
	case s.slot <- struct{}{}:
		return func() { <-s.slot }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *rulesCache) keep(o *origin, rules *robots.Rules) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// drop takes the rules of an origin off the list. The caller holds the mutex.
func (s *rulesCache) drop(o *origin) {
	if o.place == nil {
		return
	}
	s.made -= s.rules.Remove(o.place).(*madeRules).rules.Size()
	o.place = nil
}
