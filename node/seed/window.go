package seed

import (
	"math"
	"time"
)

// Window is how a peer did lately: an average in which a visit counts the less the longer ago it
// was.
type Window struct {
	Reliability float64 `json:"reliability"`    // share of the time in which it answered, 0 to 1
	Visits      float64 `json:"visits"`         // how many visits that rests on
	Time        float64 `json:"time,omitempty"` // and how much time, as a share of a window that is full
}

// measure is what a window has to show for its peer to be given. Spans and figures are those of
// Bitcoin's seeder (github.com/sipa/bitcoin-seeder), but for its month.
type measure struct {
	name        string
	span        time.Duration
	reliability float64 // more than this
	visits      float64 // more than so many
}

// measures are the windows, from the shortest: a peer is proven by any one of them.
var measures = [...]measure{
	{"2h", 2 * time.Hour, 0.85, 2},
	{"8h", 8 * time.Hour, 0.70, 4},
	{"day", 24 * time.Hour, 0.55, 8},
	{"week", 7 * 24 * time.Hour, 0.45, 16},
}

// note takes a visit so long after the one before. It speaks for that time, so that the first of
// all decides until there is another: a peer may be heard of a moment before it answers anybody.
func (w *Window) note(answered bool, after, span time.Duration) {
	if w.Visits == 0 {
		after = 0
	}
	keep := math.Exp(-float64(after) / float64(span))
	if w.Time == 0 && w.Visits > 1 {
		w.Time = 1 // of a state that knew no time
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

// shows says whether a window is enough for its peer to be given.
func (m measure) shows(w Window) bool { return w.Reliability > m.reliability && w.Visits > m.visits }
