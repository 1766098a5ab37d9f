package owner_test

import (
	"fmt"
	"testing"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// TestFirst: what a job names first goes before what is nearer to the seeds, at its host and among
// hosts that wait for a worker, also when it comes later.
func TestFirst(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, cfg *owner.Config) {
		m.First = []string{"https://a.example/news/", "/urgent$"}
		cfg.MaxPlacing = 1
	})
	ready := s.post(0, "http://a.example/", "http://b.example/", "http://c.example/")
	s.post(7, "http://a.example/news/2", "http://d.example/urgent", "http://a.example/old", "http://d.example/urgent/not")
	s.post(5, "http://a.example/news/1")
	var order []string
	for range 4 {
		if len(ready.Places) != 1 {
			t.Fatalf("after %v the hosts to be placed are %+v", order, ready.Places)
		}
		host := ready.Places[0].Host
		s.placed(ready, "w")
		reply, next := s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Want: 9}}})
		order = append(append(order, host), granted(reply.GetGrants()[0])...)
		ready = next
	}
	want := "[a.example http://a.example/news/1 http://a.example/news/2 http://a.example/ http://a.example/old" +
		" d.example http://d.example/urgent http://d.example/urgent/not b.example http://b.example/ c.example http://c.example/]"
	if fmt.Sprint(order) != want {
		t.Errorf("fetched in the order %v,\nwant %v", order, want)
	}
}
