package coordinates

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func page(host, k int) pageURL {
	return pageURL{url: fmt.Sprintf("http://h%d/%d", host, k), host: fmt.Sprintf("h%d", host)}
}

func TestQueueShares(t *testing.T) {
	tests := map[string]struct {
		assigned, proxy, found bool
		wait                   float64
		want                   [4]float64 // idle, assigned, proxy, found
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
			q := newQueue(rand.New(rand.NewPCG(1, 1)))
			q.wait = tt.wait
			for k := range n {
				u := page(k%50, k)
				if tt.assigned {
					q.assigned.push(u)
				}
				if tt.proxy {
					q.proxy.push(request{pageURL: u, requester: "a"})
				}
				if tt.found {
					q.find(&u)
				}
			}
			var got [4]int
			for range n {
				_, from := q.next()
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
	q := newQueue(rand.New(rand.NewPCG(1, 1)))
	for k := range maxFound + 2 {
		u := page(0, k)
		if taken := q.find(&u); taken != (k < maxFound) {
			t.Errorf("URL %d of a host: taken %v", k, taken)
		}
	}
	u := page(1, 0)
	q.find(&u)
	if q.bucket("h0") != maxFound || q.bucket("h1") != 1 || q.bucket("h2") != 0 {
		t.Error("a host has not the URLs that were found")
	}
	if got := q.take("h0"); len(got) != maxFound || got[1] != page(0, 1) || q.take("h0") != nil {
		t.Errorf("%d taken, want all of the host, once", len(got))
	}
	for k := range 100 {
		q.assigned.push(page(9, k))
	}
	for k := range 100 {
		if got := q.assigned.pop(); got != page(9, k) {
			t.Fatalf("%v, want the %dth", got, k)
		}
	}
	if got, from := q.next(); from != found || got.pageURL != u {
		t.Errorf("%v from %d, want what was found", got, from)
	}
	if _, from := q.next(); from != idle || q.bucket("h1") != 0 {
		t.Error("a URL is left")
	}
}
