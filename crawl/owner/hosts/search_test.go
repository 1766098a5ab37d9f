package hosts

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
		if others := s.Ask(100); !others || s.State != SearchAsked || s.Until != 100 {
			t.Fatalf("search %d: %v until %d, others %v", i, s.State, s.Until, others)
		}
		s.Found(&Placement{URLs: 5, Pace: 2})
		s.Offer(worker, 200)
		if !s.OfferedTo(worker) || s.OfferedTo("x") || s.Until != 200 || s.URLs != 5 || s.Pace != 2 {
			t.Fatalf("offer %d: %+v", i, s)
		}
		s.Refused(worker, self, 50)
		if offered := s.End(); !offered || s.State != SearchIdle || s.OfferedTo(worker) || s.URLs != 0 || s.rest != 0 {
			t.Fatalf("refusal %d: offered %v, %+v", i, offered, s)
		}
	}
	if !slices.Equal(s.Exclude, []string{"a", "b", "c"}) {
		t.Errorf("excluded are %v", s.Exclude)
	}
	if others := s.Ask(300); others {
		t.Error("after three refusals another peer is asked")
	}
	s.Offer(self, 400)
	s.Refused(self, self, 1000)
	s.End()
	if len(s.Exclude) > 0 || s.rest != 1000+restAfter {
		t.Errorf("after all refused: %+v", s)
	}
	s.Again("why")
	s.Exclude = []string{"a"}
	if s.Taken(); s.Replace || s.Anew != "" || s.Exclude != nil {
		t.Errorf("after a lease: %+v", s)
	}
}

// TestSearchThatFindsNobody: the host rests, and nobody is excluded for it.
func TestSearchThatFindsNobody(t *testing.T) {
	var s search
	s.Ask(100)
	s.Refused(s.Offered, "self", 100)
	if offered := s.End(); offered || s.rest != 100+restAfter || len(s.Exclude) > 0 {
		t.Errorf("offered %v, %+v", offered, s)
	}
}

// TestSearchReserves: the time for requests that measure is told of once, and ends with the search.
func TestSearchReserves(t *testing.T) {
	for _, polite := range []int64{0, 70} {
		var s search
		s.Ask(100)
		s.Reserve(polite, 500)
		if before, until := s.Unreserve(); before != max(polite, 1) || until != 500 {
			t.Errorf("owed was %d until %d", before, until)
		}
		if before, _ := s.Unreserve(); before != 0 {
			t.Error("it ends twice")
		}
		s.Reserve(polite, 500)
		s.End()
		if before, _ := s.Unreserve(); before != 0 {
			t.Error("it outlives the search")
		}
	}
}

// TestSearchesRoom: what is declined makes room for fewer searches, down to a few, and what is
// taken for more.
func TestSearchesRoom(t *testing.T) {
	s := Searches{most: leastPlacing + 2}
	room := func() (n int) {
		for s.Under = 0; s.room(); n++ {
			s.Under++
		}
		return n
	}
	for i, want := range []int{leastPlacing + 2, leastPlacing + 1, leastPlacing, leastPlacing} {
		if got := room(); got != want {
			t.Errorf("after %d declined: room for %d, want %d", i, got, want)
		}
		s.Declined()
	}
	for i, want := range []int{leastPlacing + 1, leastPlacing + 2, leastPlacing + 2} {
		s.Taken()
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
