package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
)

// crawl visits hosts with so many fetchers until the time is up: what a visit takes is took's to
// say, and an empty queue is filled again. It returns the moments of the visits of each host, in
// seconds.
type crawl struct {
	f      *Frontier[int]
	took   func(name string) float64
	next   func(f *Frontier[int], now time.Time) string
	then   map[float64]func() // what happens at a time
	visits map[string][]float64
}

func (c *crawl) run(fetchers int, until float64) {
	c.visits = make(map[string][]float64)
	ends := make(map[string]float64)
	for now := 0.0; now < until; now += 0.25 {
		for name, end := range ends {
			if end <= now {
				delete(ends, name)
				c.f.Push(name, 1)
				c.f.Done(at(now), name, time.Duration(c.took(name)*float64(time.Second)))
			}
		}
		if do := c.then[now]; do != nil {
			do()
		}
		for len(ends) < fetchers {
			name := c.next(c.f, at(now))
			if name == "" {
				break
			}
			c.f.Take(name)
			ends[name] = now + c.took(name)
			c.visits[name] = append(c.visits[name], now)
		}
	}
}

// TestSilentHostsLeaveTurns: hundreds of hosts of one domain that never answer, and come anew when
// they have been given up, keep no other host from being visited: neither one that answers, be it
// of their own domain, nor one of another domain that is met later.
func TestSilentHostsLeaveTurns(t *testing.T) {
	for name, next := range map[string]func(f *Frontier[int], now time.Time) string{
		"by due": func(f *Frontier[int], now time.Time) string {
			name, _ := f.Next(now)
			return name
		},
		"by score": func(f *Frontier[int], now time.Time) string {
			names, _ := f.Ranked(now, 6, func(item int) uint64 { return uint64(item) }) // small
			if len(names) == 0 || !f.Visit(now, names[0]) {
				return ""
			}
			return names[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := New[int](Config{Delay: time.Second, Factor: -1, Group: domain.Of})
			f.Fetchers(16)
			f.Push("www.silent.example", 1)
			f.Push("ordinary.example", 1)
			for i := range 600 {
				f.Push(fmt.Sprintf("n%d.silent.example", i), 1)
			}
			c := crawl{f: f, next: next, took: func(name string) float64 {
				if name == "ordinary.example" || name == "late.example" || name == "www.silent.example" {
					return 0.25
				}
				return 20
			}}
			c.then = map[float64]func(){100: func() { f.Push("late.example", 1) }}
			for i := range 600 { // given up and granted again, as after a failure
				c.then[200+float64(i)/4] = func() {
					name := fmt.Sprintf("n%d.silent.example", i)
					f.Remove(name)
					f.Push(name, 1)
				}
			}
			c.run(16, 400)
			for _, tt := range []struct {
				host string
				from float64
			}{{"ordinary.example", 0}, {"www.silent.example", 0}, {"late.example", 100}} {
				last := tt.from
				for _, at := range append(c.visits[tt.host], 400) {
					if at-last > 25 { // a visit of a silent host, and a few moments
						t.Errorf("%s is not visited from %v s to %v s", tt.host, last, at)
						break
					}
					last = at
				}
			}
			silent := 0
			for i := range 600 {
				if len(c.visits[fmt.Sprintf("n%d.silent.example", i)]) > 0 {
					silent++
				}
			}
			if silent < 200 {
				t.Errorf("%d of the silent hosts were visited, though nobody else needs the fetchers", silent)
			}
		})
	}
}

// TestKindIsRemembered: a host that is forgotten and comes again is of the kind that it was, with
// bounded memory, and prompt hosts are counted right.
func TestKindIsRemembered(t *testing.T) {
	f := New[int](Config{Delay: time.Second, Factor: -1})
	f.Fetchers(8)
	visit := func(name string, now, took float64) {
		f.Push(name, 1)
		if got, _ := f.Next(at(now)); got != name {
			t.Fatalf("%q is visited, want %s", got, name)
		}
		f.Take(name)
		f.Done(at(now+took), name, time.Duration(took*float64(time.Second)))
		f.Remove(name)
	}
	visit("prompt", 0, 0.5)
	visit("slow", 10, 2)
	for name, want := range map[string]kind{"prompt": prompt, "slow": slow, "new": unknown} {
		f.Push(name, 1)
		if got := f.hosts[name].kind(); got != want {
			t.Errorf("%s comes back as one of kind %d, want %d", name, got, want)
		}
	}
	if f.held.prompt != 1 {
		t.Errorf("%d prompt hosts, want 1", f.held.prompt)
	}
	for _, name := range []string{"prompt", "slow", "new"} {
		f.Remove(name)
	}
	for i := range 2*maxPast + 10 {
		visit(fmt.Sprint(i), float64(20+5*i), 0.5)
	}
	if f.held.prompt != 0 || len(f.past) > maxPast {
		t.Errorf("%d prompt hosts are left, %d hosts are remembered", f.held.prompt, len(f.past))
	}
}
