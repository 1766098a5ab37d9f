package frontier

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestGroupDelay: after a request to a host its group rests, and no longer than that.
func TestGroupDelay(t *testing.T) {
	domain := func(host string) string { return host[strings.IndexByte(host, '.')+1:] }
	type world = *Frontier[int]
	for _, tt := range []struct {
		name string
		then func(f world) // after a visit of a.x has begun at 0
		next string        // at 1
		due  float64       // if there is none; 0: nobody knows
	}{
		{"while it is visited", func(world) {}, "", 0},
		{"while it rests", func(f world) { f.Done(at(0.5), "a.x", 0) }, "", 3.5},
		{"when it has rested", func(f world) { f.Done(at(-2), "a.x", 0) }, "b.x", 0},
		{"after a request of which nothing came", func(f world) { f.Hung(at(0.5), "a.x", 0) }, "", 3.5},
		{"after a visit without a request", func(f world) { f.Free("a.x") }, "b.x", 0},
		{"of a host that was removed", func(f world) { f.Remove("a.x"); f.Done(at(0.5), "a.x", 0) }, "", 3.5},
		{"of another group", func(f world) { f.Push("a.y", 1) }, "a.y", 0},
		{"a longer Crawl-delay is its host's alone", func(f world) { f.CrawlDelay("a.x", time.Minute); f.Done(at(-2), "a.x", 0) }, "b.x", 0},
		{"for another's robots.txt", func(f world) {
			if !f.Beside(at(0), "b.x", "a.x") || f.Beside(at(0), "c.x", "b.y") {
				t.Error("b.x has its visit for a.x, c.x has none for a stranger")
			}
			f.Done(at(0.5), "b.x", 0)
			f.Free("a.x")
		}, "", 3.5},
		{"for that of another group", func(f world) {
			f.Free("a.x")
			if !f.EnterGroup(at(0), "q.x", "a.y") || f.EnterGroup(at(0), "p.x", "a.y") {
				t.Error("a group is not entered once")
			}
			f.LeaveGroup(at(0.25), "q.x")
		}, "", 3.25},
		{"for that of its own", func(f world) {
			if !f.EnterGroup(at(0), "q.x", "a.x") {
				t.Error("a group is not entered beside its own visit")
			}
			f.LeaveGroup(at(0.25), "q.x")
			f.Done(at(0.5), "a.x", 0)
		}, "", 3.5},
		{"behind an address", func(f world) {
			ip := netip.MustParseAddr("192.0.2.1")
			f.SetAddr("b.x", ip)
			f.SetAddr("c.x", ip)
			f.Enter(at(0.5), ip) // until 0.75
			f.Free("a.x")
			f.Remove("a.x")
			if name, _ := f.Next(at(0.5)); name != "" {
				t.Errorf("%s is visited", name)
			}
			f.EnterGroup(at(0.5), "q.x", "")
			f.LeaveGroup(at(0.75), "q.x")
		}, "", 3.75},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := New[int](Config{Delay: time.Second, Group: domain, GroupDelay: 3 * time.Second})
			f.Push("a.x", 1, 2)
			if name, _ := f.Next(epoch); name != "a.x" {
				t.Fatalf("%s is visited", name)
			}
			f.Push("b.x", 1)
			f.Push("c.x", 1)
			tt.then(f)
			f.NotBefore("a.x", at(60))
			name, due := f.Next(at(1))
			if name != tt.next || name == "" && due != (time.Time{}) != (tt.due > 0) || tt.due > 0 && !due.Equal(at(tt.due)) {
				t.Errorf("%q is visited, to be asked again at %v", name, due.Sub(epoch))
			}
		})
	}
}
