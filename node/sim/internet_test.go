package sim

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSyntheticInternetLooksLikeMeasuredOnes(t *testing.T) {
	net := NewSynthetic(1)
	var rtts []time.Duration
	for i := range 300 {
		for j := range i {
			rtt := net.RTT(i, j)
			if rtt != net.RTT(j, i) || rtt <= 0 {
				t.Fatalf("round trip %d to %d: %v, back %v", i, j, rtt, net.RTT(j, i))
			}
			rtts = append(rtts, rtt)
		}
	}
	slices.Sort(rtts)
	at := func(share float64) time.Duration { return rtts[int(share*float64(len(rtts)))] }
	t.Logf("p10 %v, median %v, p90 %v, p99 %v", at(0.1), at(0.5), at(0.9), at(0.99))
	// PlanetLab: 31, 134, 291, 404 ms; cloud regions: 40, 155, 259, 381 ms.
	if m := at(0.5); m < 100*time.Millisecond || m > 180*time.Millisecond {
		t.Errorf("median %v", m)
	}
	if p := at(0.9); p < 200*time.Millisecond || p > 360*time.Millisecond {
		t.Errorf("90th percentile %v", p)
	}
	if NewSynthetic(1).RTT(3, 4) != net.RTT(3, 4) || NewSynthetic(2).RTT(3, 4) == net.RTT(3, 4) {
		t.Error("the seed does not decide")
	}
}

func TestMatrix(t *testing.T) {
	zipped := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return b.String()
	}
	square := "0,10,NaN\n12,0,30\n20,NaN,0\n"
	for name, c := range map[string]struct {
		text, says string
		size       int
	}{
		"plain":          {square, "", 3},
		"gzip":           {zipped(square), "", 3},
		"empty":          {"", "not a square", 0},
		"not square":     {"0,1\n", "not a square", 0},
		"too long":       {"0,1\n1,0\n2,2\n", "not a square", 0},
		"ragged":         {"0,1\n1\n", "wrong number of fields", 0},
		"words":          {"a,b\n1,0\n", "invalid syntax", 0},
		"holes only":     {"0,NaN\nNaN,0\n", "no round trip", 0},
		"infinite":       {"0,Inf\n5,0\n", "", 2},
		"broken archive": {zipped(square)[:20], "unexpected EOF", 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			m, err := LoadMatrix(path)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v, want %q in it", err, c.says)
				}
				return
			}
			if err != nil || m.Size() != c.size {
				t.Fatalf("%v rows, error %v", m, err)
			}
		})
	}
	m, err := readMatrix(strings.NewReader(square))
	if err != nil {
		t.Fatal(err)
	}
	ms := time.Millisecond
	for _, c := range []struct {
		i, j int
		want time.Duration
	}{{0, 1, 10 * ms}, {1, 0, 12 * ms}, {0, 2, 20 * ms}, {2, 1, 30 * ms}, {3, 4, 10 * ms}, {0, 3, besides}, {1, 1, besides}} {
		if got := m.RTT(c.i, c.j); got != c.want {
			t.Errorf("round trip %d to %d: %v, want %v", c.i, c.j, got, c.want)
		}
	}
}

func FuzzMatrix(f *testing.F) {
	f.Add([]byte("0,10\n12,0\n"))
	f.Add([]byte("0,NaN\nNaN,0\n"))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readMatrix(bytes.NewReader(data))
		if err != nil {
			return
		}
		for i := range min(m.Size(), 8) {
			for j := range min(m.Size(), 8) {
				if m.RTT(i, j) <= 0 {
					t.Fatalf("round trip %d to %d: %v", i, j, m.RTT(i, j))
				}
			}
		}
	})
}
