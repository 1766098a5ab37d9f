package visits

import (
	"fmt"
	"math"
	"testing"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/apoidea/apoidea/crawl/robots"
)

func newShelf() *shelf {
	idle, _ := simplelru.NewLRU[string, idleFile](math.MaxInt, nil)
	return &shelf{idle: idle}
}

// TestShelfBoundsIdleFiles: files of hosts without a lease are retained within their bound, those
// used last.
func TestShelfBoundsIdleFiles(t *testing.T) {
	s := newShelf()
	for i := range 40 {
		o := &origin{name: fmt.Sprintf("http://h%d.example", i), state: robots.State{Verdict: robots.Obey}}
		if !s.take(o, make([]byte, robots.MaxBody)) {
			t.Fatalf("no room for file %d", i)
		}
		s.forget(o)
		s.forget(&origin{name: fmt.Sprintf("http://never%d.example", i)})
	}
	if s.states != 0 || s.idleBytes > mostIdle || s.idleBytes < mostIdle-2*robots.MaxBody {
		t.Errorf("%d bytes of leased and %d of idle hosts", s.states, s.idleBytes)
	}
	if n := s.idle.Len(); !s.idle.Contains("http://h39.example") || s.idle.Contains("http://h0.example") || n != mostIdle/(robots.MaxBody+idleOverhead) {
		t.Errorf("%d files are retained, of these hosts: %v", n, s.idle.Keys())
	}
	for _, origin := range s.idle.Keys() {
		s.remove(origin)
	}
	if s.idleBytes != 0 {
		t.Errorf("%d bytes of no file", s.idleBytes)
	}
}

// TestShelfBoundsLeasedFiles: a file for which there is no memory is not taken, and small ones
// always are.
func TestShelfBoundsLeasedFiles(t *testing.T) {
	s := newShelf()
	var taken []*origin
	for range 2 * mostStates / robots.MaxBody {
		if o := new(origin); s.take(o, make([]byte, robots.MaxBody)) {
			taken = append(taken, o)
		}
	}
	if len(taken) != mostStates/robots.MaxBody || s.states > mostStates {
		t.Errorf("%d files of %d bytes are kept", len(taken), s.states)
	}
	if o := new(origin); !s.take(o, make([]byte, smallState)) || o.packed == nil {
		t.Error("a small file is not taken")
	}
	if o := taken[0]; !s.take(o, make([]byte, robots.MaxBody)) {
		t.Error("a file has no room in place of its previous one")
	}
	for _, o := range taken {
		s.forget(o)
	}
	if s.states != 0 {
		t.Errorf("%d bytes of no file", s.states)
	}
}
