package volunteer

import "time"

// Pacer rations processor time: it says when to rest so that what is used stays at a share of it.
// It is told now and then of what the process has used.
type Pacer struct {
	last   time.Time
	used   time.Duration
	credit time.Duration
}

// pacerBurst is for how long of wall time unused credit is kept: a page may cost what it costs, but
// an hour of rest does not buy an hour at full speed.
const pacerBurst = time.Second

// Rest says whether work should rest until the next question, for a share in cores and the
// processor time that the process has used since it began. A share of 0 never rests. The first
// question only takes note.
func (p *Pacer) Rest(now time.Time, share float64, used time.Duration) bool {
	since, spent := now.Sub(p.last), used-p.used
	first := p.last.IsZero()
	p.last, p.used = now, used
	if share <= 0 || first || since < 0 || spent < 0 {
		p.credit = 0
		return false
	}
	most := time.Duration(share * float64(pacerBurst))
	p.credit += time.Duration(share*float64(since)) - spent
	// What was overdrawn by something that cannot rest is forgotten after a while, or the peer
	// would stand still for it long after.
	p.credit = min(max(p.credit, -10*most), most)
	return p.credit < 0
}
