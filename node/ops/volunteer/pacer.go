package volunteer

import "time"

// Pacer limits processor time: it decides when to pause so that usage stays at a share.
type Pacer struct {
	last   time.Time
	used   time.Duration
	credit time.Duration
}

// pacerBurst is the wall time for which unused credit is kept: an idle hour must not allow an hour
// at full speed.
const pacerBurst = time.Second

// Rest reports whether to pause until the next call, for a share in cores and the CPU time that the
// process has used since its start. A share of 0 never pauses. The first call only records its
// arguments.
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
	// Debt of work that cannot pause is limited, or the peer would stop for a long time after it.
	p.credit = min(max(p.credit, -10*most), most)
	return p.credit < 0
}
