package bandwidth

import "time"

const (
	// bins is the resolution of the last second.
	bins = 100
	bin  = time.Second / bins
)

// bucket is a token bucket with a sliding window. On average it grants its rate because it fills at
// that rate and holds a burst; in each window of a second because it counts what it granted in the
// last. Without a rate it grants everything. It is below zero while there is debt.
type bucket struct {
	rate   float64 // bytes a second
	tokens float64
	at     time.Time

	start time.Time
	given [bins + 1]float64 // bytes by bin; one more than a second, as the present one is incomplete
	last  int64             // the number of the present bin
	sum   float64
}

// holds returns the capacity of the bucket: at least the smallest piece, which could not be granted
// otherwise.
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

// room returns what the last second leaves.
func (b *bucket) room() float64 { return max(b.rate*windowShare, leastPiece) - b.sum }

// record counts granted bytes.
func (b *bucket) record(n float64) {
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
	b.record(n)
	return true
}

func (b *bucket) owe(now time.Time, n float64) {
	b.refill(now)
	b.tokens = max(b.tokens-n, -b.rate*debtBound)
	b.record(min(n, b.rate))
}

func (b *bucket) giveBack(now time.Time, n float64) {
	b.refill(now)
	b.tokens = min(b.tokens+n, b.holds())
	b.record(-n) // granted recently, maybe in an earlier bin: this one may become negative
}

// until returns the time until n can be granted; a microsecond more than computed, so that rounding
// causes no second attempt.
func (b *bucket) until(now time.Time, n float64) time.Duration {
	b.refill(now)
	d := time.Duration(max(n-b.tokens, 0) / (b.rate * Share) * float64(time.Second))
	missing := n - b.room()
	for i := int64(1); missing > 0 && i <= bins; i++ {
		// The bin i after the present one replaces the oldest but i.
		missing -= b.given[(b.last+i)%int64(len(b.given))]
		d = max(d, b.start.Add(time.Duration(b.last+i)*bin).Sub(now))
	}
	return d + time.Microsecond
}
