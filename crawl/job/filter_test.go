package job_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

func TestFiltered(t *testing.T) {
	tests := []struct {
		include, exclude []string
		url              string
		admitted         bool
	}{
		{nil, nil, "http://a.example/x", true},
		{[]string{"/docs/"}, nil, "http://a.example/docs/x", true},
		{[]string{"/docs/"}, nil, "https://b.example:8080/docs/", true},
		{[]string{"/docs/"}, nil, "http://a.example/docs", false},
		{[]string{"/docs/"}, nil, "http://a.example/Docs/x", false},
		{[]string{"/docs/", "/blog"}, nil, "http://a.example/blogs", true},
		{[]string{"a.example/docs/"}, nil, "http://a.example:81/docs/x", true},
		{[]string{"A.example/docs/"}, nil, "http://b.example/docs/x", false},
		{[]string{"https://a.example/docs/"}, nil, "http://a.example/docs/x", true},
		{[]string{"*.example/docs/"}, nil, "http://b.example/docs/x", true},
		{[]string{"/b%C3%BCcher/"}, nil, "http://a.example/b%C3%BCcher/1", true},
		{[]string{"/bücher/"}, nil, "http://a.example/b%C3%BCcher/1", true},
		{[]string{"/a/../docs/"}, nil, "http://a.example/docs/x", true},
		{nil, []string{"/*.pdf$"}, "http://a.example/x/y.pdf", false},
		{nil, []string{"/*.pdf$"}, "http://a.example/x/y.pdf?page=2", true},
		{nil, []string{"/*?*print="}, "http://a.example/x?a=1&print=1", false},
		{nil, []string{"/*?*print="}, "http://a.example/print=", true},
		{[]string{"/docs/"}, []string{"/docs/old/"}, "http://a.example/docs/old/x", false},
		{[]string{"/docs/"}, []string{"/docs/old/"}, "http://a.example/docs/older", true},
		{[]string{`re:/\d{4}/\d{2}/`}, nil, "http://a.example/2026/11/x", true},
		{[]string{`re:/\d{4}/\d{2}/`}, nil, "http://a.example/2026/x", false},
		{[]string{`re:^https://a\.example/`}, nil, "http://a.example/x", false},
		{nil, []string{`re:(?i)\.JPE?G$`}, "http://a.example/x.jpg", false},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.include, test.exclude, test.url), func(t *testing.T) {
			s, err := job.FromWire(spec(func(m *wire.JobSpec) { m.Include, m.Exclude = test.include, test.exclude }))
			if err != nil {
				t.Fatal(err)
			}
			if why := s.Filtered(test.url, 1, link.KindPage); (why == "") != test.admitted {
				t.Errorf("%q", why)
			}
			if why := s.Filtered(test.url, 0, link.KindPage); len(test.exclude) == 0 && why != "" {
				t.Errorf("as a seed: %q", why)
			}
			if why := s.Filtered(test.url, 1, link.KindRobots); why != "" {
				t.Errorf("as robots.txt: %q", why)
			}
			if again, err := job.FromWire(s.Wire()); err != nil || again.Filtered(test.url, 1, link.KindPage) == "" != test.admitted {
				t.Errorf("another spec after its way: %v", err)
			}
		})
	}
}

func TestHostDepths(t *testing.T) {
	s, err := job.FromWire(spec(func(m *wire.JobSpec) {
		m.HasMaxDepth, m.MaxDepth = true, 3
		m.HostDepths = []*wire.HostDepth{{Host: "news.example", Depth: 1}, {Host: "*.example", Depth: 5}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	for host, most := range map[string]uint32{"news.example": 1, "news.example:81": 1, "a.example": 5, "b.test": 3} {
		if !s.AdmitsDepth(host, most) || s.AdmitsDepth(host, most+1) {
			t.Errorf("%s: not %d", host, most)
		}
	}
}

// TestFiltersAreRefused: what is no pattern, and what would cost too much, is refused with the
// pattern named.
func TestFiltersAreRefused(t *testing.T) {
	for _, row := range []struct{ pattern, want string }{
		{"", "want /PATH"},
		{"*.pdf", "want /PATH"},
		{"docs", "want /PATH"},
		{"a b/x", "scope"},
		{"re:(", "missing closing )"},
		{"re:" + strings.Repeat("(", 2000) + strings.Repeat(")", 2000), "nests too deeply"},
		{"re:((a{100}){100}){100}", "re"},
		{"re:(x{300}y{300}){2}", "more than 1000 parts"},
		{"/" + strings.Repeat("a", 5000), "at most 4096"},
	} {
		for _, list := range []string{"include", "exclude"} {
			_, err := job.FromWire(spec(func(m *wire.JobSpec) {
				if m.Include = []string{row.pattern}; list == "exclude" {
					m.Include, m.Exclude = nil, m.Include
				}
			}))
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s %.40q: %v", list, row.pattern, err)
			}
		}
	}
	_, err := job.FromWire(spec(func(m *wire.JobSpec) { m.Exclude = []string{"/x"} }))
	if err == nil || !strings.Contains(err.Error(), `"/x"`) {
		t.Errorf("a seed that is excluded: %v", err)
	}
}

// TestFiltersAreCheap: the worst that a stranger's patterns may cost a URL of the greatest length
// is bounded.
func TestFiltersAreCheap(t *testing.T) {
	patterns := []string{"/" + strings.Repeat("*"+strings.Repeat("a", 200)+"b", 9), `re:(a|aa){1,60}b`, `re:(.*a){30}c`}
	s, err := job.FromWire(spec(func(m *wire.JobSpec) { m.Exclude = patterns }))
	if err != nil {
		t.Fatal(err)
	}
	url := "http://a.example/" + strings.Repeat("a", link.MaxURL-17)
	begin := time.Now()
	if why := s.Filtered(url, 1, link.KindPage); why != "" {
		t.Error(why)
	}
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("%v for one URL", took)
	} else {
		t.Log(took)
	}
}

// FuzzFilter: whatever the pattern, a spec is refused or answers, and says the same after its way
// over the wire.
func FuzzFilter(f *testing.F) {
	f.Add("/docs/*$", "http://a.example/docs/x")
	f.Add("re:^http", "http://a.example/docs/x")
	f.Add("*.example:80/", "http://b.example/?q")
	f.Fuzz(func(t *testing.T, pattern, url string) {
		s, err := job.FromWire(spec(func(m *wire.JobSpec) { m.Include = []string{pattern} }))
		if err != nil {
			return
		}
		url, err = link.Canonical(url)
		if err != nil {
			return
		}
		again, err := job.FromWire(s.Wire())
		if err != nil {
			t.Fatal(err)
		}
		if s.Filtered(url, 1, link.KindPage) != again.Filtered(url, 1, link.KindPage) {
			t.Errorf("%q: %q", pattern, url)
		}
	})
}
