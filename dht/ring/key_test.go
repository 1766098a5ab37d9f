package ring

import (
	"crypto/sha256"
	"math/rand/v2"
	"testing"
)

// at is the key n/256 of the way round the circle.
func at(n byte) Key { return Key{n} }

func randomKey(rnd *rand.Rand) Key {
	var k Key
	for i := range k {
		k[i] = byte(rnd.Uint32())
	}
	return k
}

func TestKeysAreHashesOfTheirNames(t *testing.T) {
	for _, row := range []struct {
		name string
		got  Key
		text string
	}{
		{"host", HostKey("a.example"), "/apoidea/host/a.example"},
		{"content", ContentKey([]byte{0xff, 1}), "/apoidea/content/\xff\x01"},
		{"job", JobKey("j1"), "/apoidea/job/j1"},
		{"peer", PeerKey([]byte("id")), "id"},
	} {
		if want := Key(sha256.Sum256([]byte(row.text))); row.got != want {
			t.Errorf("%s: %s, want %s", row.name, row.got, want)
		}
	}
}

func TestDistances(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		a, b := randomKey(rnd), randomKey(rnd)
		if a.Add(b.Sub(a)) != b {
			t.Fatalf("%s + (%s - %s) is not %s", a.Hex(), b.Hex(), a.Hex(), b.Hex())
		}
		if Near(a, b) != Near(b, a) || Near(a, b).Turns() > 0.5 {
			t.Fatalf("near distance of %s and %s", a.Hex(), b.Hex())
		}
	}
	if got := at(2).Sub(at(254)); got != at(4) {
		t.Errorf("distance over zero = %s", got)
	}
}

func TestArcContains(t *testing.T) {
	for _, row := range []struct {
		name     string
		arc      Arc
		in, out  []byte
		fraction float64
	}{
		{"plain", Arc{at(10), at(20)}, []byte{11, 15, 20}, []byte{10, 21, 0}, 10.0 / 256},
		{"past zero", Arc{at(250), at(5)}, []byte{251, 0, 5}, []byte{250, 6, 100}, 11.0 / 256},
		{"ends at zero", Arc{at(250), at(0)}, []byte{255, 0}, []byte{1, 250}, 6.0 / 256},
		{"begins at zero", Arc{at(0), at(5)}, []byte{1, 5}, []byte{0, 6}, 5.0 / 256},
		{"whole circle", Arc{at(7), at(7)}, []byte{7, 8, 0, 255}, nil, 1},
	} {
		for _, k := range row.in {
			if !row.arc.Contains(at(k)) {
				t.Errorf("%s: %d is not in %s", row.name, k, row.arc)
			}
		}
		for _, k := range row.out {
			if row.arc.Contains(at(k)) {
				t.Errorf("%s: %d is in %s", row.name, k, row.arc)
			}
		}
		if got := row.arc.Fraction(); got != row.fraction {
			t.Errorf("%s: fraction %g, want %g", row.name, got, row.fraction)
		}
	}
}

func TestArcHolds(t *testing.T) {
	for _, row := range []struct {
		name  string
		a, b  Arc
		holds bool
	}{
		{"neighbours", Arc{at(1), at(5)}, Arc{at(5), at(9)}, false},
		{"inside", Arc{at(1), at(9)}, Arc{at(3), at(5)}, true},
		{"same", Arc{at(1), at(9)}, Arc{at(1), at(9)}, true},
		{"crossing", Arc{at(1), at(5)}, Arc{at(4), at(9)}, false},
		{"around the back", Arc{at(1), at(9)}, Arc{at(8), at(7)}, false},
		{"whole", Arc{at(3), at(3)}, Arc{at(8), at(7)}, true},
		{"in the whole", Arc{at(8), at(7)}, Arc{at(3), at(3)}, false},
		{"past zero", Arc{at(250), at(9)}, Arc{at(255), at(3)}, true},
	} {
		if got := row.a.Holds(row.b); got != row.holds {
			t.Errorf("%s: holds = %v", row.name, got)
		}
	}
}
