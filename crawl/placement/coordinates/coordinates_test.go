package coordinates

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var start = time.Unix(1_000_000, 0)

func TestFilter(t *testing.T) {
	tests := map[string]struct {
		cfg     FilterConfig
		samples []float64
		value   float64
		ok      bool
	}{
		"too few":                     {FilterConfig{4, 3, 0.5}, []float64{1, 2}, 0, false},
		"median of three":             {FilterConfig{4, 3, 0.5}, []float64{9, 1, 2}, 2, true},
		"the lowest":                  {FilterConfig{4, 1, 0}, []float64{9, 3, 5}, 3, true},
		"the highest":                 {FilterConfig{4, 1, 1}, []float64{9, 3, 5}, 9, true},
		"a fifth of ten":              {FilterConfig{20, 4, 0.2}, []float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 3, true},
		"one peak does not show":      {FilterConfig{16, 4, 0.5}, []float64{5, 5, 5000, 5, 5}, 5, true},
		"the oldest leaves":           {FilterConfig{3, 1, 0}, []float64{1, 7, 8, 9}, 7, true},
		"equal ones leave one a time": {FilterConfig{3, 1, 1}, []float64{9, 9, 1, 2}, 9, true},
		"and are gone in the end":     {FilterConfig{3, 1, 1}, []float64{9, 9, 1, 2, 3}, 3, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var f filter
			var value float64
			var ok bool
			for _, s := range tt.samples {
				value, ok = f.add(&tt.cfg, s)
			}
			if value != tt.value || ok != tt.ok {
				t.Errorf("%v, %v, want %v, %v", value, ok, tt.value, tt.ok)
			}
		})
	}
}

// The formulas of 3.1, by hand.
func TestVivaldiUpdate(t *testing.T) {
	v := NewVivaldi(rand.New(rand.NewPCG(1, 1)))
	v.at = Coordinate{Vec: [Dimensions]float64{30, 40}, Height: 10, Error: 0.5}
	remote := Coordinate{Height: 40, Error: 0.3}
	// The distance is 50 + 10 + 40 = 100 and the sample 180; w = 0.5/0.8, so the force is 0.25 w 80
	// = 12.5. Half of the distance is the vector's, so half of the force moves it and the other
	// half goes into the height.
	v.Update(&remote, 180)
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	near("x", v.at.Vec[0], 30+12.5*30/100)
	near("y", v.at.Vec[1], 40+12.5*40/100)
	near("height", v.at.Height, 10+12.5*50/100)
	near("error", v.at.Error, 80.0/180*0.25*0.625+0.5*(1-0.25*0.625))
	near("distance", v.at.Distance(&remote), 100+12.5)
}

func TestVivaldiBounds(t *testing.T) {
	v := NewVivaldi(rand.New(rand.NewPCG(1, 1)))
	here := fresh()
	v.Update(&here, 100)
	if v.at.flat(&here) == 0 {
		t.Error("two that coincide stay where they are, want a random direction")
	}
	for range 200 {
		if v.Update(&here, 0); v.at == fresh() {
			t.Fatal("reset by a sample of nothing")
		}
	}
	if v.at.Height <= 0 || v.at.Error > maxError {
		t.Errorf("after many samples of nothing: %+v", v.at)
	}
	if ms := clamp(10 * time.Minute); ms != maxSample {
		t.Errorf("a sample of ten minutes counts as %v ms, want %v", ms, maxSample)
	}
	v.Update(&Coordinate{Vec: [Dimensions]float64{math.NaN()}}, 100)
	if v.at != fresh() {
		t.Errorf("after a remote that is no place: %+v, want it to begin anew", v.at)
	}
}

// TestSpaceOfPeers: nodes of a plane with access links find coordinates that tell their distances,
// by 3.1 within 5 to 10 %.
func TestSpaceOfPeers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	const peers = 12
	var truth [peers]Coordinate
	nodes := make([]*Vivaldi, peers)
	for i := range truth {
		truth[i] = Coordinate{Vec: [Dimensions]float64{rnd.Float64() * 200, rnd.Float64() * 200}, Height: 5 + rnd.Float64()*40}
		nodes[i] = NewVivaldi(rnd)
	}
	for range 400 {
		for i := range nodes {
			j := (i + 1 + rnd.IntN(peers-1)) % peers
			at := nodes[j].At()
			nodes[i].Update(&at, truth[i].Distance(&truth[j]))
		}
	}
	var off []float64
	for i := range nodes {
		for j := range i {
			a, b := nodes[i].At(), nodes[j].At()
			want := truth[i].Distance(&truth[j])
			off = append(off, math.Abs(a.Distance(&b)-want)/want)
		}
	}
	slices.Sort(off)
	if median := off[len(off)/2]; median > 0.1 {
		t.Errorf("median error %.3f of distances, want at most 0.1", median)
	}
}

func TestCodec(t *testing.T) {
	c := Coordinate{Vec: [Dimensions]float64{1.5, -2, 0, 300}, Height: 12.25, Error: 0.5, Queue: 4}
	raw := c.Append(nil)
	if got, err := Decode(raw); err != nil || got != c || len(raw) != EncodedSize {
		t.Errorf("%+v, %v, %d bytes", got, err, len(raw))
	}
	tests := map[string]func(*Coordinate){
		"not a number":    func(c *Coordinate) { c.Vec[1] = math.NaN() },
		"infinite":        func(c *Coordinate) { c.Vec[0] = math.Inf(-1) },
		"too far":         func(c *Coordinate) { c.Vec[2] = 2 * MaxMillis },
		"negative height": func(c *Coordinate) { c.Height = -1 },
		"error":           func(c *Coordinate) { c.Error = 2 },
		"queue":           func(c *Coordinate) { c.Queue = math.Inf(1) },
	}
	for name, spoil := range tests {
		bad := c
		spoil(&bad)
		if _, err := Decode(bad.Append(nil)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for _, raw := range [][]byte{nil, raw[1:], append(slices.Clone(raw), 0), append([]byte{9}, raw[1:]...), append([]byte{1, 9}, raw[2:]...)} {
		if _, err := Decode(raw); err == nil {
			t.Errorf("% x: taken", raw)
		}
	}
}

func FuzzDecode(f *testing.F) {
	c := fresh()
	f.Add(c.Append(nil))
	c = Coordinate{Vec: [Dimensions]float64{-1e5, 7}, Height: 300, Error: 1.5, Queue: 9}
	f.Add(c.Append(nil))
	f.Add(make([]byte, EncodedSize))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := Decode(raw)
		if err != nil {
			return
		}
		v := NewVivaldi(rand.New(rand.NewPCG(1, 1)))
		for _, ms := range []float64{50, 90} {
			if v.Update(&c, ms); v.at == fresh() {
				t.Error("reset by what was decoded")
			}
		}
		if d := v.at.Cost(&c); !(d >= 0 && d < 10*MaxMillis) {
			t.Errorf("distance %v to what was decoded", d)
		}
		if again, err := Decode(c.Append(nil)); err != nil || again != c {
			t.Errorf("%+v, %v after another round, want %+v", again, err, c)
		}
	})
}
