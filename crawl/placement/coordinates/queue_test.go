package coordinates

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func page(host, k int) URL {
	return URL{URL: fmt.Sprintf("http://h%d/%d", host, k), Host: fmt.Sprintf("h%d", host)}
}

func TestQueueShares(t *testing.T) {
	tests := map[string]struct {
		assigned, proxy, found bool
		wait                   float64
		want                   [4]float64 // Idle, Assigned, Proxy, Found
	}{
		"all":                  {true, true, true, 0, [4]float64{0, 0.8, 0.1, 0.1}},
		"nothing assigned":     {false, true, true, 0, [4]float64{0, 0, 0.9, 0.1}},
		"no estimates":         {true, false, true, 0, [4]float64{0, 0.8, 0, 0.2}},
		"nothing found":        {true, true, false, 0, [4]float64{0, 0.8, 0.2, 0}},
		"only assigned":        {true, false, false, 0, [4]float64{0, 1, 0, 0}},
		"only found":           {false, false, true, 0, [4]float64{0, 0, 0, 1}},
		"empty":                {false, false, false, 0, [4]float64{1, 0, 0, 0}},
		"slowed for estimates": {true, true, true, 0.5, [4]float64{0.5, 0.4, 0.05, 0.05}},
	}
	const n = 4000
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultQueueConfig()
			cfg.Wait = tt.wait
			q := NewQueue(cfg, rand.New(rand.NewPCG(1, 1)))
			for k := range n {
				u := page(k%50, k)
				if tt.assigned {
					q.Assign(u)
				}
				if tt.proxy {
					q.Ask(Request{URL: u, Requester: "a"})
				}
				if tt.found {
					q.Find(&u)
				}
			}
			var got [4]int
			for range n {
				_, from := q.Next()
				got[from]++
			}
			for i, want := range tt.want {
				if share := float64(got[i]) / n; share < want-0.03 || share > want+0.03 {
					t.Errorf("source %d has %.3f of all, want %.2f", i, share, want)
				}
			}
		})
	}
}

func TestQueueIsInOrderAndBounded(t *testing.T) {
	q := NewQueue(QueueConfig{Assigned: 1, MaxHosts: 2, MaxURLs: 3}, rand.New(rand.NewPCG(1, 1)))
	for k := range 5 {
		u := page(0, k)
		if taken, _ := q.Find(&u); taken != (k < 3) {
			t.Errorf("URL %d of a host: taken %v", k, taken)
		}
	}
	for host := 1; host < 3; host++ {
		u := page(host, 0)
		if _, dropped := q.Find(&u); (host == 2) != (len(dropped) == 3) {
			t.Errorf("with host %d, %d URLs are dropped", host, len(dropped))
		}
	}
	if q.Bucket("h0") != 0 || q.Bucket("h1") != 1 {
		t.Error("the host used longest ago is still there")
	}
	if got := q.Take("h1"); len(got) != 1 || got[0] != page(1, 0) || q.Take("h1") != nil {
		t.Errorf("taken %v", got)
	}
	for k := range 100 {
		q.Assign(page(9, k))
	}
	for k := range 100 {
		if got, from := q.Next(); from != Assigned || got.URL != page(9, k) {
			t.Fatalf("%v from %d, want the %dth", got, from, k)
		}
	}
	if _, from := q.Next(); from != Found {
		t.Error("what was found is not served")
	}
	if a, p, f := q.Len(); a+p+f != 0 {
		t.Errorf("%d, %d, %d left", a, p, f)
	}
}
