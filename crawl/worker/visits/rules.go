package visits

import (
	"container/list"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/apoidea/apoidea/crawl/robots"
)

const (
	// smallState is the compressed size up to which an origin's robots.txt is always kept; larger ones
	// have mostStates in all. Hosts whose file does not fit are given back for roomPause.
	smallState = 4 << 10
	mostStates = 16 << 20
	roomPause  = 5 * time.Second
	// mostIdle bounds the files, with idleOverhead each, retained for later leases of their hosts.
	// Those beyond it are fetched again.
	mostIdle     = 8 << 20
	idleOverhead = 300
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

// shelf caches robots.txt files and their parsed rules: a worker holds a thousand hosts, and a file
// of 500 KiB yields megabytes of rules. All were fetched by this worker, because an owner could
// forge any.
type shelf struct {
	idle      *simplelru.LRU[string, idleFile] // of hosts without a lease, by origin
	idleBytes int
	states    int       // bytes of files of leased hosts that are not small
	rules     list.List // of *madeRules, most recently used first
	made      int       // bytes of those
}

// idleFile is the robots.txt of an origin without a lease.
type idleFile struct {
	origin string
	state  robots.State
	packed []byte
}

func (f *idleFile) size() int { return len(f.origin) + len(f.packed) + idleOverhead }

// store retains a file, in place of the origin's previous one and of those not used for longest.
func (s *shelf) store(f idleFile) {
	s.remove(f.origin)
	s.idle.Add(f.origin, f)
	for s.idleBytes += f.size(); s.idleBytes > mostIdle; {
		oldest, _, _ := s.idle.GetOldest()
		s.remove(oldest)
	}
}

// remove drops the retained file of an origin.
func (s *shelf) remove(origin string) {
	if had, ok := s.idle.Peek(origin); ok {
		s.idle.Remove(origin)
		s.idleBytes -= had.size()
	}
}

type madeRules struct {
	origin *origin
	rules  *robots.Rules
}

// take stores the file of an origin, in place of its previous one, if it fits.
func (s *shelf) take(o *origin, packed []byte) (room bool) {
	size := len(packed)
	if size <= smallState {
		size = 0
	}
	s.drop(o)
	s.states -= o.counted
	o.counted, o.packed = 0, nil
	if size > 0 && s.states+size > mostStates {
		return false
	}
	s.states += size
	o.counted, o.packed = size, packed
	return true
}

// forget drops everything cached of an origin whose lease is over, and retains its file.
func (s *shelf) forget(o *origin) {
	s.drop(o)
	s.states -= o.counted
	o.counted = 0
	if o.state.Verdict != robots.Unknown {
		s.store(idleFile{o.name, o.state, o.packed})
	}
}

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
