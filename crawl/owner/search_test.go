package owner

import (
	"slices"
	"testing"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// TestSearchStates drives the search for a worker through its table of states.
func TestSearchStates(t *testing.T) {
	const self = "self"
	var s search
	for i, worker := range []string{"a", "b", "c"} {
		if others := s.ask(100); !others || s.state != searchAsked || s.until != 100 {
			t.Fatalf("search %d: %v until %d, others %v", i, s.state, s.until, others)
		}
		s.found(&Placement{URLs: 5, Pace: 2})
		s.offer(worker, 200)
		if !s.offeredTo(worker) || s.offeredTo("x") || s.until != 200 || s.urls != 5 || s.pace != 2 {
			t.Fatalf("offer %d: %+v", i, s)
		}
		s.refused(worker, self, 50)
		if offered := s.end(); !offered || s.state != searchIdle || s.offeredTo(worker) || s.urls != 0 || s.rest != 0 {
			t.Fatalf("refusal %d: offered %v, %+v", i, offered, s)
		}
	}
	if !slices.Equal(s.exclude, []string{"a", "b", "c"}) {
		t.Errorf("excluded are %v", s.exclude)
	}
	if others := s.ask(300); others {
		t.Error("after three refusals another peer is asked")
	}
	s.offer(self, 400)
	s.refused(self, self, 1000)
	s.end()
	if len(s.exclude) > 0 || s.rest != 1000+restAfter {
		t.Errorf("after all refused: %+v", s)
	}
	s.again("why")
	s.exclude = []string{"a"}
	if s.taken(); s.replace || s.anew != "" || s.exclude != nil {
		t.Errorf("after a lease: %+v", s)
	}
}

// TestSearchThatFindsNobody: the host rests, and nobody is excluded for it.
func TestSearchThatFindsNobody(t *testing.T) {
	var s search
	s.ask(100)
	s.refused(s.offered, "self", 100)
	if offered := s.end(); offered || s.rest != 100+restAfter || len(s.exclude) > 0 {
		t.Errorf("offered %v, %+v", offered, s)
	}
}

// TestSearchReserves: the time for requests that measure is told of once, and ends with the search.
func TestSearchReserves(t *testing.T) {
	for _, polite := range []int64{0, 70} {
		var s search
		s.ask(100)
		s.reserve(polite, 500)
		if before, until := s.unreserve(); before != max(polite, 1) || until != 500 {
			t.Errorf("owed was %d until %d", before, until)
		}
		if before, _ := s.unreserve(); before != 0 {
			t.Error("it ends twice")
		}
		s.reserve(polite, 500)
		s.end()
		if before, _ := s.unreserve(); before != 0 {
			t.Error("it outlives the search")
		}
	}
}

// TestSearchesRoom: what is declined makes room for fewer searches, down to a few, and what is
// taken for more.
func TestSearchesRoom(t *testing.T) {
	s := searches{most: leastPlacing + 2}
	room := func() (n int) {
		for s.under = 0; s.room(); n++ {
			s.under++
		}
		return n
	}
	for i, want := range []int{leastPlacing + 2, leastPlacing + 1, leastPlacing, leastPlacing} {
		if got := room(); got != want {
			t.Errorf("after %d declined: room for %d, want %d", i, got, want)
		}
		s.declined()
	}
	for i, want := range []int{leastPlacing + 1, leastPlacing + 2, leastPlacing + 2} {
		s.taken()
		if got := room(); got != want {
			t.Errorf("after %d taken: room for %d, want %d", i+1, got, want)
		}
	}
}

// TestSlower: a worker has become slower when several reports in a row took much longer than its
// first.
func TestSlower(t *testing.T) {
	for _, c := range []struct {
		name  string
		means []uint32
		want  bool
	}{
		{"as ever", []uint32{100, 110, 190, 200}, false},
		{"three times", []uint32{100, 300, 300, 300}, true},
		{"not in a row", []uint32{100, 300, 300, 100, 300, 300}, false},
		{"little in sum", []uint32{5, 40, 40, 40}, false},
	} {
		var r ondisk.Host
		got := false
		for _, mean := range c.means {
			got = r.Slower(mean)
		}
		if got != c.want {
			t.Errorf("%s: slower is %v", c.name, got)
		}
	}
}
