package owner_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// hangsFor is how long a worker waits for what hangs.
const hangsFor = 2 * time.Second

// hanging plays a host that answers what hangs does not name, until nothing more comes of it for an
// hour. It returns how many requests hung before the last answer, and in all, and when that answer
// was.
func hanging(s *scene, most int, hangs func(url string) bool) (before, all, good int, last time.Duration) {
	begun := s.now
	for quiet := time.Duration(0); quiet < time.Hour; quiet += 5 * time.Second {
		if len(s.placed(s.wait(5*time.Second), "w")) == 0 {
			continue
		}
		reply, _ := s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Want: uint32(most)}}})
		for len(reply.GetGrants()) == 1 {
			g := reply.GetGrants()[0]
			if len(g.GetUrl()) == 0 {
				s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
				break
			}
			for _, url := range granted(g) {
				quiet = 0
				f := s.got(url, link.OutcomeOK)
				if hangs(url) {
					f = s.got(url, link.OutcomeTimeout)
					f.Status = link.Hung
					s.now = s.now.Add(hangsFor)
					all++
				} else {
					s.now = s.now.Add(20 * time.Millisecond)
					before, last = all, s.now.Sub(begun)
					good++
				}
				if reply = s.tell("w", "a.example", g.GetEpoch(), f); len(reply.GetRevoked()) > 0 {
					break
				}
			}
			if len(reply.GetRevoked()) > 0 {
				break
			}
			reply, _ = s.say("w", &wire.Session{
				Held:  []*wire.HostLease{{Host: "a.example", Epoch: g.GetEpoch()}},
				Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Want: uint32(most)}},
			})
		}
	}
	return before, all, good, last
}

// TestHangsGoLast: a host that answers and has URLs of which nothing comes is not left alone for
// these. Where they can be told from the others they go behind them.
func TestHangsGoLast(t *testing.T) {
	for _, row := range []struct {
		name         string
		good, hangs  string
		before, most int // requests that hang before the last answer, and URLs wanted at once
		within       time.Duration
	}{
		{"a folder", "/p/%d", "/h/%d", 16, 8, time.Minute},
		{"a folder, all wanted at once", "/p/%d", "/h/%d", 16, 256, time.Minute},
		{"names", "/p/page%d", "/p/hang%d", 16, 8, time.Minute},
		{"a parameter", "/p?page=%d", "/p?page=%d&print", 16, 8, time.Minute},
		{"they are like the others", "/p/%d", "/p/1%03d", 300, 8, 300*hangsFor + time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.Delay = 20 * time.Millisecond })
			bad := make(map[string]bool)
			urls := []string{"http://a.example/"}
			for i := range 300 {
				hang := "http://a.example" + fmt.Sprintf(row.hangs, i)
				bad[hang] = true
				urls = append(urls, "http://a.example"+fmt.Sprintf(row.good, i), hang)
			}
			s.placed(s.post(0, urls...), "nobody")
			before, all, good, last := hanging(s, row.most, func(url string) bool { return bad[url] })
			t.Logf("%d pages within %v and %d requests that hang, of %d", good, last, before, all)
			if good != 301 || before > row.before || last > row.within {
				t.Errorf("%d of 301 pages within %v, with %d requests that hang before; want all within %v, and %d at most", good, last, before, row.within, row.before)
			}
			if n := s.owner.Totals().URLsPending; n > 0 {
				t.Errorf("%d URLs have no outcome in the end", n)
			}
		})
	}
}

// TestHostThatHangs: of which nothing comes at all is left alone ever longer, also if it has
// answered before.
func TestHostThatHangs(t *testing.T) {
	for _, row := range []struct {
		name     string
		answered int
		requests int // of which nothing comes
	}{{"from the beginning", 0, 6}, {"after it has answered", 20, 12}} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t, nil)
			s.placed(s.post(0, pages("a.example", 400)...), "nobody")
			n := 0
			_, all, _, _ := hanging(s, 8, func(string) bool { n++; return n > row.answered })
			if all != row.requests {
				t.Errorf("%d requests, want %d", all, row.requests)
			}
			d, _ := s.owner.Host("a.example")
			if c := s.owner.Counts(s.id); c.Outcomes[link.OutcomeTimeout.String()] != int64(400-row.answered) || d.Fails != 4 {
				t.Errorf("in the end %+v, after %d failures of the host", c, d.Fails)
			}
		})
	}
}
