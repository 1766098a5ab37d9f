package ringsvg

import (
	"math"
	"testing"
)

// TestLabelsStandApart: labels keep their order, the minimum distance and the area, and do not move
// without need.
func TestLabelsStandApart(t *testing.T) {
	r := &Ring{Radius: 300, ArcWidth: 26, Height: 740, LabelGap: 40}
	for name, ys := range map[string][]float64{
		"alone":            {0},
		"far apart":        {-200, 0, 100},
		"all at one place": {0, 0, 0, 0},
		"at the top":       {-370, -369, -368},
		"at the end":       {340, 350, 360, 370},
		"two crowds":       {-200, -199, -198, 200, 201, 202},
		"a full side":      make([]float64, 18),
	} {
		t.Run(name, func(t *testing.T) {
			var side []label
			peers := make([]Peer, len(ys))
			for i, y := range ys {
				side = append(side, label{peer: &peers[i], y: y})
			}
			r.apart(side)
			for i, l := range side {
				if l.peer != &peers[i] {
					t.Fatalf("the order changed: %v", side)
				}
				if math.Abs(l.at) > r.Height/2+1e-6 {
					t.Errorf("label %d at %.1f, outside of the area", i, l.at)
				}
				if i > 0 && l.at-side[i-1].at < r.LabelGap-1e-6 {
					t.Errorf("labels %d and %d are %.1f apart, want %g", i-1, i, l.at-side[i-1].at, r.LabelGap)
				}
			}
		})
	}
	apart := []label{{y: 200}, {y: 300}}
	if r.apart(apart); apart[0].at != 200 || apart[1].at != 300 {
		t.Errorf("labels with room moved: %v", apart)
	}
}

// TestThreadsAvoidCenter: wherever two peers are, the thread between them does not run through the
// text in the center.
func TestThreadsAvoidCenter(t *testing.T) {
	r := &Ring{Radius: 148, ArcWidth: 16}
	for i := range 1000 {
		x0, y0 := point(0.1, r.Radius-22)
		x1, y1 := point(0.1+float64(i)/1000, r.Radius-22)
		cx, cy := r.bend(x0, y0, x1, y1)
		for s := 0.0; s <= 1; s += 0.01 {
			x := (1-s)*(1-s)*x0 + 2*s*(1-s)*cx + s*s*x1
			y := (1-s)*(1-s)*y0 + 2*s*(1-s)*cy + s*s*y1
			if d := math.Hypot(x, y); d < 0.85*r.centre() {
				t.Fatalf("%d thousandths of the circle apart: %v from the center", i, d)
			}
		}
	}
}
