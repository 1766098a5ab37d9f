package robots

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// errState is the cause of rejecting an encoded State.
var errState = errors.New("robots state: malformed")

// MarshalBinary encodes the State without its body: verdict, whether "/" is allowed, the four times
// as seconds since 1970 (0: not set; not-before times are rounded up), the number of failures, the
// length of the body, and the crawl delay in milliseconds.
func (s *State) MarshalBinary() ([]byte, error) {
	out := []byte{byte(s.Verdict), 0}
	if s.Home {
		out[1] = 1
	}
	for _, t := range []time.Time{s.Fetched, wholeSecond(s.Expires), wholeSecond(s.NotBefore), s.UnreachableSince} {
		out = binary.AppendUvarint(out, toSeconds(t))
	}
	out = binary.AppendUvarint(out, uint64(min(max(s.Failures, 0), maxFailures)))
	out = binary.AppendUvarint(out, uint64(min(max(s.Length, 0), MaxBody)))
	return binary.AppendUvarint(out, uint64(min(max(s.Delay, 0), MaxPause).Milliseconds())), nil
}

// UnmarshalBinary decodes what MarshalBinary wrote, and rejects anything else.
func (s *State) UnmarshalBinary(data []byte) error {
	if len(data) < 2 || data[0] >= byte(verdictEnd) || data[1] > 1 {
		return fmt.Errorf("%w: %d bytes", errState, len(data))
	}
	var n [7]uint64
	rest := data[2:]
	for i, most := range [len(n)]uint64{maxSeconds, maxSeconds, maxSeconds, maxSeconds, maxFailures, MaxBody, uint64(MaxPause.Milliseconds())} {
		size := 0
		if n[i], size = binary.Uvarint(rest); size <= 0 || n[i] > most {
			return fmt.Errorf("%w: number %d", errState, i)
		}
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d trailing bytes", errState, len(rest))
	}
	*s = State{
		Verdict: Verdict(data[0]), Home: data[1] == 1,
		Fetched: fromSeconds(n[0]), Expires: fromSeconds(n[1]), NotBefore: fromSeconds(n[2]), UnreachableSince: fromSeconds(n[3]),
		Failures: int(n[4]), Length: int(n[5]), Delay: time.Duration(n[6]) * time.Millisecond,
	}
	return nil
}

// Limits of the decoded numbers: the year 9999, and more failures than retries can make in that
// time.
const (
	maxSeconds  = 253402300799
	maxFailures = 1 << 30
)

func toSeconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(min(max(t.Unix(), 1), maxSeconds))
}

func fromSeconds(n uint64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0).UTC()
}
