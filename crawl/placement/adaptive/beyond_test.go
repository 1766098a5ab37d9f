package adaptive

import (
	"fmt"
	"slices"
	"testing"
)

// TestBeyond: an owner whose candidates are far from a place hears by samples of others who is near
// to it, and names them; no candidate, none where its candidates are as near, none for a place that
// nobody knows.
func TestBeyond(t *testing.T) {
	const peers, few = 24, 6
	p := newPlane(11, peers, 12, true)
	teacher, own := New(0), New(1)
	for i := range 200 {
		addr, ms := p.site()
		place(t, teacher, view(fmt.Sprint("h", i), addr, peers), ms)
		for _, l := range teacher.Samples() {
			own.Learn(at0, &l)
		}
	}
	all := func(string) bool { return true }
	found, wanted, idle := 0, 0, 0
	for i := range 100 {
		addr, ms := p.site()
		v := view(fmt.Sprint("own", i), addr, few)
		names := own.Beyond(v, 3, all)
		if len(names) > 3 {
			t.Fatalf("%d names", len(names))
		}
		if len(names) > 0 && slices.Contains(own.Beyond(v, 3, func(peer string) bool { return peer != names[0] }), names[0]) {
			t.Errorf("%s is named, who is not able", names[0])
		}
		here, best := slices.Min(ms[:few]), slices.Index(ms, slices.Min(ms))
		for _, n := range names {
			if n < name(few) {
				t.Errorf("%s is a candidate already", n)
			}
		}
		switch {
		case ms[best] < here-5:
			wanted++
			if slices.Contains(names, name(best)) {
				found++
			}
		case best < few && len(names) > 0:
			idle++
		}
	}
	if wanted < 30 || found < wanted*9/10 || idle > 5 {
		t.Errorf("the nearest peer was named for %d of %d sites; somebody was for %d whose nearest is a candidate", found, wanted, idle)
	}
	siteAt, _ := p.site()
	if names := own.Beyond(view("own", siteAt, peers), 3, all); len(names) > 0 {
		t.Errorf("%q are named, though all are candidates", names)
	}
	if names := New(0).Beyond(view("own", siteAt, few), 3, all); len(names) > 0 {
		t.Errorf("%q are named by one who knows nobody", names)
	}
}
