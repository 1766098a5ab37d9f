package bandwidth

import "time"

const (
	// bins are how finely the last second is known.
	bins = 100
	bin  = time.Second / bins
)

// bucket gives out a share of its rate. On the average that is so because it fills at that and
// holds a burst; in each window of a second because it knows what it gave out in the last. Without
// a rate it has everything. It is below zero while there is debt.
type bucket struct {
	rate   float64 // bytes a second
	tokens float64
	at     time.Time

	start time.Time
	given [bins + 1]float64 // bytes by bin; one more than a second has, as the present one has only begun
	last  int64             // the number of the present bin
	sum   float64
}

// holds is what the bucket holds at most: never less than the least piece, or that could not be
// had.
func (b *bucket) holds() float64 { return max(b.rate*burst, leastPiece) }

func (b *bucket) setRate(now time.Time, rate float64) {
	b.refill(now)
	b.rate = rate
	b.tokens = min(max(b.tokens, -rate*debtBound), b.holds())
}

func (b *bucket) refill(now time.Time) {
	if b.start.IsZero() {
		b.start, b.at = now, now
	}
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(b.tokens+d.Seconds()*b.rate*Share, b.holds())
		b.at = now
	}
	n := int64(b.at.Sub(b.start) / bin)
	if n-b.last > bins {
		b.given, b.sum, b.last = [bins + 1]float64{}, 0, n
	}
	for b.last < n {
		b.last++
		old := &b.given[b.last%int64(len(b.given))]
		b.sum -= *old
		*old = 0
	}
}

// room is what the last second leaves.
func (b *bucket) room() float64 { return max(b.rate*windowShare, leastPiece) - b.sum }

// note counts what is given out.
func (b *bucket) note(n float64) {
	b.given[b.last%int64(len(b.given))] += n
	b.sum += n
}

func (b *bucket) take(now time.Time, n float64) bool {
	if b.rate == 0 {
		return true
	}
	b.refill(now)
	if b.tokens < n || b.room() < n {
		return false
	}
	b.tokens -= n
	b.note(n)
	return true
}

func (b *bucket) owe(now time.Time, n float64) {
	b.refill(now)
	b.tokens = max(b.tokens-n, -b.rate*debtBound)
	b.note(min(n, b.rate))
}

func (b *bucket) giveBack(now time.Time, n float64) {
	b.refill(now)
	b.tokens = min(b.tokens+n, b.holds())
	b.note(-n) // it was given out a moment ago, maybe in an earlier bin: this one may be below zero
}

// until is how long it takes until n can be taken; a microsecond more than computed, so that
// rounding does not ask twice.
func (b *bucket) until(now time.Time, n float64) time.Duration {
	b.refill(now)
	d := time.Duration(max(n-b.tokens, 0) / (b.rate * Share) * float64(time.Second))
	missing := n - b.room()
	for i := int64(1); missing > 0 && i <= bins; i++ {
		// The bin after the present one by i takes the place of the oldest but i.
		missing -= b.given[(b.last+i)%int64(len(b.given))]
		d = max(d, b.start.Add(time.Duration(b.last+i)*bin).Sub(now))
	}
	return d + time.Microsecond
}
