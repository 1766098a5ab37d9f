package worker

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/link"
)

const closedToAll = "User-agent: *\nDisallow: /\n"

// optedOut is a list of one host.
type optedOut string

// URL implements OptOuts.
func (o optedOut) URL(url string) string {
	if link.Host(url) == string(o) {
		return "on the list"
	}
	return ""
}

// TestCrossHostRobots: what a robots.txt says that lies at another host are the rules of the host
// that leads there; where it may not be asked for, nothing is.
func TestCrossHostRobots(t *testing.T) {
	const page, www = "http://a.example/x", "www.a.example"
	for _, tt := range []struct {
		name   string
		bodies map[string]string
		want   link.Outcome
		asked  []string // of other hosts, at least
		never  string
	}{
		{
			"forbids",
			map[string]string{"a.example/robots.txt": "redirect http://www.a.example/robots.txt", www + "/robots.txt": closedToAll},
			link.OutcomeRobotsDenied,
			[]string{"http://www.a.example/robots.txt"},
			page,
		},
		{
			"allows",
			map[string]string{"a.example/robots.txt": "redirect http://www.a.example/robots.txt", www + "/robots.txt": "User-agent: *\nDisallow: /y"},
			link.OutcomeOK,
			[]string{"http://www.a.example/robots.txt"},
			"http://www.a.example/x",
		},
		{"not there", map[string]string{"a.example/robots.txt": "redirect http://www.a.example/robots.txt"}, link.OutcomeOK, []string{"http://www.a.example/robots.txt"}, "http://www.a.example/x"},
		{"five hops", map[string]string{
			"a.example/robots.txt": "redirect http://b.example/robots.txt", "b.example/robots.txt": "redirect http://c.example/robots.txt", "c.example/robots.txt": "redirect http://d.example/robots.txt",
			"d.example/robots.txt": "redirect http://a.example/r", "a.example/r": "redirect http://e.example/robots.txt", "e.example/robots.txt": closedToAll,
		}, link.OutcomeRobotsDenied, []string{"http://a.example/r", "http://e.example/robots.txt"}, page},
		{
			"at another path",
			map[string]string{"a.example/robots.txt": "redirect http://www.a.example/rules", www + "/robots.txt": "User-agent: *\nDisallow: /y", www + "/rules": closedToAll},
			link.OutcomeRobotsDenied,
			[]string{"http://www.a.example/robots.txt", "http://www.a.example/rules"},
			page,
		},
		{
			"at a path that is closed",
			map[string]string{"a.example/robots.txt": "redirect http://www.a.example/rules", www + "/robots.txt": closedToAll, www + "/rules": ""},
			link.OutcomeRobotsUnreachable,
			[]string{"http://www.a.example/robots.txt"},
			"http://www.a.example/rules",
		},
		{"out of reach", map[string]string{"a.example/robots.txt": "redirect http://nowhere.example/robots.txt"}, link.OutcomeRobotsUnreachable, nil, page},
		{"opted out", map[string]string{"a.example/robots.txt": "redirect http://out.example/robots.txt"}, link.OutcomeRobotsUnreachable, nil, "http://out.example/robots.txt"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				tt.bodies["a.example/x"] = "x"
				x := newWorld(t, fixed(tt.bodies), []string{page}, func(x *world) { x.deps.OptOuts = optedOut("out.example") })
				x.crawl()
				if f := x.done(page); link.Outcome(f.GetOutcome()) != tt.want {
					t.Errorf("outcome %v, want %v (%s)", link.Outcome(f.GetOutcome()), tt.want, f.GetDetail())
				}
				for _, url := range tt.asked {
					if n := x.asked[url]; n == 0 || n > 1 && tt.want != link.OutcomeRobotsUnreachable { // which is tried again
						t.Errorf("%s was asked for %d times", url, n)
					}
				}
				if tt.want != link.OutcomeOK && x.asked[page] > 0 || x.asked[tt.never] > 0 {
					t.Errorf("asked for %v", x.asked)
				}
			})
		})
	}
}

// TestCrossHostPolitely: a host that many lead to for their rules, and that is crawled itself, is
// asked one thing at a time, and has its rest in between.
func TestCrossHostPolitely(t *testing.T) {
	const hosts, pages, delay = 12, 10, time.Second
	crawltest.Bubble(t, func(t *testing.T) {
		inner := site(pages)
		seeds := []string{"http://www.a.example/"}
		for i := range hosts {
			seeds = append(seeds, fmt.Sprintf("http://h%d.a.example/", i))
		}
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/robots.txt" && strings.HasPrefix(r.Host, "h"):
				http.Redirect(rw, r, "http://www.a.example/robots.txt", http.StatusMovedPermanently)
			case r.URL.Path == "/robots.txt":
				time.Sleep(delay / 10)
				fmt.Fprint(rw, "User-agent: *\nDisallow: /z")
			default:
				time.Sleep(delay / 10)
				inner(rw, r)
			}
		}, seeds, func(x *world) { x.cfg.Politeness = frontier.Config{Delay: delay, Factor: -1} })
		x.crawl()
		if n := x.asked["http://www.a.example/robots.txt"]; n != hosts+1 {
			t.Errorf("robots.txt was asked for %d times, want %d", n, hosts+1)
		}
		for host, gap := range x.gaps {
			if gap < delay-50*time.Millisecond {
				t.Errorf("%s: smallest gap %v, want %v", host, gap, delay)
			}
		}
		if n := x.outcomes()[link.OutcomeOK]; x.lapped != 0 || n != pages*(hosts+1) {
			t.Errorf("%d overlaps, %d pages", x.lapped, n)
		}
	})
}
