package job

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/wire"
)

// Refresh is how often the pages of a job are fetched again. Part of the wire and the disk format:
// 0 is never, an even number is twice the visits a day of the whole job, and an odd one is twice
// the interval in seconds within which each page is visited, plus 1.
type Refresh uint64

// Bounds of a Refresh.
const (
	maxRefreshVisits = 1 << 40
	minRefreshPause  = 10 * time.Second
	maxRefreshPause  = 3650 * 24 * time.Hour
)

// ParseRefresh parses visits a day ("20000/day"), an interval ("7d", "12h") or "off".
func ParseRefresh(text string) (Refresh, error) {
	if text == "off" {
		return 0, nil
	}
	if count, ok := strings.CutSuffix(text, "/day"); ok {
		n, err := strconv.ParseUint(count, 10, 64)
		if err != nil || n < 1 || n > maxRefreshVisits {
			return 0, fmt.Errorf("%.40q: want 1 to %d visits a day, such as 20000/day", text, uint64(maxRefreshVisits))
		}
		return Refresh(2 * n), nil
	}
	whole, unit := text, time.Duration(1)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		whole, unit = days+"h", 24
	}
	d, err := time.ParseDuration(whole)
	if err != nil || d < minRefreshPause/unit || d > maxRefreshPause/unit {
		return 0, fmt.Errorf("%.40q: want visits a day (20000/day), an interval of %v to 3650d (7d, 12h), or off", text, minRefreshPause)
	}
	return Refresh(2*uint64(d*unit/time.Second) + 1), nil // positive
}

// Validate rejects a value that ParseRefresh never returns.
func (r Refresh) Validate() error {
	seconds := float64(r / 2)
	if r%2 == 0 && r/2 > maxRefreshVisits || r%2 == 1 && (seconds < minRefreshPause.Seconds() || seconds > maxRefreshPause.Seconds()) {
		return fmt.Errorf("invalid refresh %d", uint64(r))
	}
	return nil
}

// PerDay returns the visits a day of the whole job; 0 unless it has such a budget.
func (r Refresh) PerDay() float64 {
	if r%2 == 1 {
		return 0
	}
	return float64(r / 2)
}

// Within returns the interval in days within which each page is visited; +Inf without one.
func (r Refresh) Within() float64 {
	if r%2 == 0 {
		return math.Inf(1)
	}
	return float64(r/2) / (24 * 3600)
}

// String returns the form that ParseRefresh parses.
func (r Refresh) String() string {
	const day = 24 * 3600
	switch n := uint64(r / 2); {
	case r == 0:
		return "off"
	case r%2 == 0:
		return strconv.FormatUint(n, 10) + "/day"
	case n%day == 0:
		return strconv.FormatUint(n/day, 10) + "d"
	default:
		return (time.Duration(min(n, math.MaxInt32)) * time.Second).String()
	}
}

const againContext = "apoidea fetch again 1\x00"

// signedAgain returns the signed bytes of a request to fetch pages again.
func signedAgain(a *wire.Again) []byte {
	text := binary.BigEndian.AppendUint32([]byte(againContext), a.GetAtS())
	return fmt.Appendf(text, "%v\x00%s\x00%q", a.GetNow(), a.GetHost(), a.GetUrl())
}

// SignAgain adds the key's signature to a request to fetch pages again; none for the zero Key.
func (k Key) SignAgain(a *wire.Again) {
	if k.private != nil {
		a.Consents = append(a.Consents, &wire.Consent{Poster: k.ID(), Signature: ed25519.Sign(k.private, signedAgain(a))})
	}
}

// Permits reports whether a request to fetch pages again applies to the job: the poster of a signed
// job must have signed it.
func (s *Spec) Permits(a *wire.Again) bool {
	if !s.Signed() {
		return true
	}
	for _, by := range a.GetConsents() {
		if public, ok := publicKey(by.GetPoster()); ok && bytes.Equal(by.GetPoster(), s.Poster) {
			return ed25519.Verify(public, signedAgain(a), by.GetSignature())
		}
	}
	return false
}
