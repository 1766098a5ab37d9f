package latency

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestMatrix(t *testing.T) {
	const ms = time.Millisecond
	text := "0,10,NaN,\n12,0,30,0\n20,NaN,0,NaN\n,0,NaN,0\n"
	for name, c := range map[string]struct {
		fill bool
		i, j int
		want time.Duration
	}{
		"the mean of both":      {false, 0, 1, 11 * ms},
		"the one that is known": {false, 0, 2, 20 * ms},
		"back":                  {false, 2, 1, 30 * ms},
		"nothing is known":      {false, 0, 3, -1},
		"nothing, filled":       {true, 3, 2, 20 * ms},
		"rounded to nothing":    {false, 3, 1, MinRTT},
		"itself":                {false, 1, 1, beside},
		"beyond, the same row":  {false, 1, 5, beside},
		"beyond":                {false, 4, 9, 11 * ms},
	} {
		m, err := ReadMatrix(strings.NewReader(text), c.fill)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.RTT(c.i, c.j); got != c.want {
			t.Errorf("%s: round trip %d to %d is %v, want %v", name, c.i, c.j, got, c.want)
		}
	}
}

func TestMatrixIsBounded(t *testing.T) {
	wide := strings.Repeat("0,", maxMatrix) + "0\n"
	if _, err := ReadMatrix(strings.NewReader(wide), false); err == nil || !strings.Contains(err.Error(), "columns") {
		t.Errorf("error %v of a matrix too wide", err)
	}
}

func FuzzMatrix(f *testing.F) {
	f.Add([]byte("0,10\n12,0\n"))
	f.Add([]byte("0,NaN\n,0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ReadMatrix(bytes.NewReader(data), true)
		if err != nil {
			return
		}
		for i := range min(m.Size(), 8) {
			for j := range min(m.Size(), 8) {
				if d := m.RTT(i, j); d <= 0 || d != m.RTT(j, i) {
					t.Fatalf("round trip %d to %d: %v", i, j, d)
				}
			}
		}
	})
}
