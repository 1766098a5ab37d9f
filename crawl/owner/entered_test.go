package owner_test

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// TestSeedRedirectEntersHost: without a scope of its own a job follows a seed that redirects to
// another host, and crawls that host; other hosts stay out of scope. With a scope of its own the
// redirect is not followed, and a seed out of the scope is fetched all the same.
func TestSeedRedirectEntersHost(t *testing.T) {
	const seed, front, page = "http://a.example/", "https://www.b.test/", "https://www.b.test/page"
	for _, row := range []struct {
		name     string
		scope    []string
		followed bool
	}{
		{"no scope", nil, true},
		{"scope of the seed", []string{"a.example"}, false},
		{"scope without the seed", []string{"c.example"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.Scope = row.scope })
			s.post(0, seed)
			g := s.lease("w", "a.example", 4)
			s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeRedirect, front))
			if got := s.fate(front).State == "pending"; got != row.followed {
				t.Fatalf("%s is pending: %v, want %v", front, got, row.followed)
			}
			if !row.followed {
				return
			}
			g = s.lease("w", "www.b.test", 4)
			f := s.got(granted(g)[0], link.OutcomeOK, page, "http://a.example/back", "http://c.test/", "http://b.test/")
			f.Hops = 1
			s.tell("w", "www.b.test", g.GetEpoch(), f)
			for url, want := range map[string]string{page: "pending", "http://a.example/back": "pending", "http://c.test/": "unknown", "http://b.test/": "unknown"} {
				if got := s.fate(url).State; got != want {
					t.Errorf("%s is %s, want %s", url, got, want)
				}
			}
		})
	}
}

// TestLinkToHostEnteredLater: a link to the other name of a seed's host, found before the seed has
// redirected there, is not remembered as refused.
func TestLinkToHostEnteredLater(t *testing.T) {
	const late = "http://www.a.example/late"
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.Scope = nil })
	s.post(0, "http://a.example/")
	s.post(1, late)
	if got := s.fate(late).State; got != "unknown" {
		t.Fatalf("before the redirect: %s", got)
	}
	g := s.lease("w", "a.example", 4)
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeRedirect, "http://www.a.example/"))
	s.post(1, late)
	if got := s.fate(late).State; got != "pending" && got != "leased" {
		t.Errorf("after the redirect: %s", got)
	}
}

// TestRedirectToSiblingEntersHost checks that a page may redirect to its host with "www.", and not
// to another host.
func TestRedirectToSiblingEntersHost(t *testing.T) {
	const page = "http://a.example/page"
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.Scope = nil })
	s.post(0, "http://a.example/")
	g := s.lease("w", "a.example", 4)
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeOK, page, "http://a.example/other"))
	for url, to := range map[string]string{page: "http://www.a.example/page", "http://a.example/other": "http://b.example/other"} {
		f := s.got(url, link.OutcomeRedirect, to)
		f.Depth = 1
		s.tell("w", "a.example", g.GetEpoch(), f)
	}
	for url, want := range map[string]string{"http://www.a.example/page": "pending", "http://b.example/other": "unknown"} {
		if got := s.fate(url).State; got != want {
			t.Errorf("%s is %s, want %s", url, got, want)
		}
	}
}
