package seed

import (
	"math"
	"time"
)

// Window is the recent reliability of a peer: an exponentially decaying average.
type Window struct {
	Reliability float64 `json:"reliability"`    // share of the time in which it responded, 0 to 1
	Visits      float64 `json:"visits"`         // decayed number of visits
	Time        float64 `json:"time,omitempty"` // covered time, as a share of a full window
}

// measure is the criterion of a window for a proven peer. The values are those of Bitcoin's seeder
// (github.com/sipa/bitcoin-seeder), without its month.
type measure struct {
	name        string
	span        time.Duration
	reliability float64 // exclusive minimum
	visits      float64 // exclusive minimum
}

// measures are the windows, shortest first: a peer is proven by any one of them.
var measures = [...]measure{
	{"2h", 2 * time.Hour, 0.85, 2},
	{"8h", 8 * time.Hour, 0.70, 4},
	{"day", 24 * time.Hour, 0.55, 8},
	{"week", 7 * 24 * time.Hour, 0.45, 16},
}

// record records a visit and the time since the previous one, which is its weight. The first visit
// alone decides until the second: a peer may be discovered just before it responds.
func (w *Window) record(answered bool, after, span time.Duration) {
	if w.Visits == 0 {
		after = 0
	}
	keep := math.Exp(-float64(after) / float64(span))
	if w.Time == 0 && w.Visits > 1 {
		w.Time = 1 // state without Time
	}
	before := w.Time * keep
	w.Time, w.Visits = before+1-keep, w.Visits*keep+1
	up := 0.0
	if answered {
		up = 1
	}
	if w.Time == 0 {
		w.Reliability = up
		return
	}
	w.Reliability = (w.Reliability*before + up*(1-keep)) / w.Time
}

// shows reports whether a window meets the criterion.
func (m measure) shows(w Window) bool { return w.Reliability > m.reliability && w.Visits > m.visits }
