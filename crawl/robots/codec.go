package robots

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/s2"
)

// MaxEncoded bounds an encoded State: a body that does not compress, and the fields before it.
const MaxEncoded = MaxBody + MaxBody/32 + 256

// errState is the cause of rejecting an encoded State.
var errState = errors.New("robots state: malformed")

// MarshalBinary encodes the State: verdict, whether there is a body, the four times as seconds
// since 1970 (0: not set; not-before times are rounded up), the number of failures, and the body
// compressed with S2.
func (s *State) MarshalBinary() ([]byte, error) {
	if len(s.Body) > MaxBody {
		return nil, fmt.Errorf("robots state: body of %d bytes, at most %d", len(s.Body), MaxBody)
	}
	out := []byte{byte(s.Verdict), 0}
	for _, t := range []time.Time{s.Fetched, wholeSecond(s.Expires), wholeSecond(s.NotBefore), s.UnreachableSince} {
		out = binary.AppendUvarint(out, toSeconds(t))
	}
	out = binary.AppendUvarint(out, uint64(min(max(s.Failures, 0), maxFailures)))
	if s.Body == nil {
		return out, nil
	}
	out[1] = 1
	return append(out, s2.Encode(nil, s.Body)...), nil
}

// UnmarshalBinary decodes what MarshalBinary wrote. It rejects anything else, and a body over
// MaxBody before decompressing it.
func (s *State) UnmarshalBinary(data []byte) error {
	if len(data) < 2 || len(data) > MaxEncoded {
		return fmt.Errorf("%w: %d bytes", errState, len(data))
	}
	if data[0] >= byte(verdictEnd) || data[1] > 1 {
		return fmt.Errorf("%w: verdict %d, body %d", errState, data[0], data[1])
	}
	out := State{Verdict: Verdict(data[0])}
	hasBody, rest := data[1] == 1, data[2:]
	for _, t := range []*time.Time{&out.Fetched, &out.Expires, &out.NotBefore, &out.UnreachableSince} {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > maxSeconds {
			return fmt.Errorf("%w: time", errState)
		}
		*t, rest = fromSeconds(n), rest[size:]
	}
	n, size := binary.Uvarint(rest)
	if size <= 0 || n > maxFailures {
		return fmt.Errorf("%w: failures", errState)
	}
	out.Failures, rest = int(n), rest[size:]
	if err := out.decodeBody(rest, hasBody); err != nil {
		return err
	}
	*s = out
	return nil
}

func (s *State) decodeBody(packed []byte, hasBody bool) error {
	if !hasBody {
		if len(packed) > 0 {
			return fmt.Errorf("%w: %d trailing bytes", errState, len(packed))
		}
		return nil
	}
	n, err := s2.DecodedLen(packed)
	if err != nil {
		return fmt.Errorf("%w: body: %w", errState, err)
	}
	if n > MaxBody {
		return fmt.Errorf("%w: body of %d bytes, at most %d", errState, n, MaxBody)
	}
	body, err := s2.Decode(make([]byte, n), packed)
	if err != nil {
		return fmt.Errorf("%w: body: %w", errState, err)
	}
	s.Body = body
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
