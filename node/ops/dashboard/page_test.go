package dashboard

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/apoidea/apoidea/node/control"
)

func TestPage(t *testing.T) {
	f := newFake()
	f.refused = []Refused{{Peer: name(9), Refusals: control.Refusals{Requests: 3, Later: 1, Request: "Offer", Why: "no host of its"}}}
	f.status.Peers[0].Name, f.status.Name = "cellar", "attic"
	s := serve(t, f)
	res := s.ask(http.MethodGet, "", "", nil)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", res.Status, res.text)
	}
	if path := os.Getenv("DASHBOARD_PAGE"); path != "" { // to be looked at
		_ = os.WriteFile(path, []byte(res.text), 0o644)
	}
	if len(res.text) > 100<<10 {
		t.Errorf("the page has %d bytes", len(res.text))
	}
	for _, want := range []string{
		`<data id="n-pages" value="12345">12,345</data>`, `>peers (estimate)</text>`, `cellar <span class="id">00000001</span>`, `<data id="n-all_pages" value="4321">`, "h0.example", ">peer8<", "The 12 hosts with the most pending URLs, of 40", "apoidea dashboard", "no host of its",
		"<title>Others crawl · Apoidea attic 00000000</title>", `<span id="headline">Others crawl</span>`, `data-title=" · Apoidea attic 00000000"`,
	} {
		want = strings.ReplaceAll(want, ">peer8<", ">00000003<")
		if !strings.Contains(res.text, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if strings.Contains(res.text, "<button") {
		t.Error("a browser that did not log in gets buttons")
	}
	if strings.Contains(res.text, "style=") {
		t.Error("the page has styles in attributes, which its own policy forbids")
	}
	s.login()
	if res = s.ask(http.MethodGet, "", "", nil); !strings.Contains(res.text, `id="b-pause"`) {
		t.Error("a browser that logged in gets no button")
	}
}

// Names of hosts, peers and networks are strangers': none may become a tag or an attribute.
func TestStrangersWordsStayText(t *testing.T) {
	const bad = `"><script>alert(1)</script><img src=x onerror=alert(1)>'&`
	f := newFake()
	f.status.Peer, f.status.Network, f.status.Version, f.status.Holding, f.status.State = bad, bad, bad, bad, bad
	for i := range f.crawled.Hosts {
		h := &f.crawled.Hosts[i]
		h.Host, h.Worker, h.Owner = bad, bad, bad
	}
	f.crawled.Hosts[0].Worker = name(0)
	f.limits.Holds = []control.Hold{{Rule: bad, Effect: bad, Why: bad, Ends: bad}}
	f.limits.Settings = []control.Setting{{Key: bad, Value: bad, Default: bad, About: bad, Changed: true}}
	f.refused = []Refused{{Peer: bad, Refusals: control.Refusals{Requests: 1, Request: bad, Why: bad}}}
	for i := range f.status.Peers {
		p := &f.status.Peers[i]
		p.Peer, p.Addr, p.Name, p.Position, p.Role = bad, bad, bad, bad, bad
	}
	for i := range f.ring.Members {
		m := &f.ring.Members[i]
		m.Peer, m.Name, m.Position, m.State, m.Delegated = bad, bad, bad, bad, map[string]int{bad: 3}
	}
	f.near = f.status.Peers
	for _, scheme := range []string{"", "javascript:", "data:", "http://"} {
		f.recent.Note(Outcome{URL: scheme + bad, Result: bad, Detail: bad, Failed: true})
	}
	f.jobs = []control.Job{{ID: bad, State: bad, Spec: control.JobSpec{URLs: []string{bad}}}, {ID: bad, State: "running", Spec: control.JobSpec{URLs: []string{bad}}}}
	s := serve(t, f)
	s.login()
	s.live.listJobs(t.Context())
	s.live.set(time.Now(), &f.ring)
	s.live.note(control.RingEvent{Time: time.Now(), Event: bad, Peer: bad, Text: bad})
	root, err := html.Parse(strings.NewReader(s.ask(http.MethodGet, "?said="+"%22%3E%3Cscript%3E", "", nil).text))
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			switch n.Data {
			case "script":
				scripts++
			case "img":
				t.Error("a stranger's tag is in the page")
			}
			for _, a := range n.Attr {
				if a.Key == "href" && (strings.Contains(a.Val, ":") && !strings.HasPrefix(a.Val, "http://")) || strings.HasPrefix(a.Key, "on") {
					t.Errorf("attribute %s=%q", a.Key, a.Val)
				}
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(root)
	if scripts != 1 {
		t.Errorf("%d scripts, want our own alone", scripts)
	}
}

// TestJobs: jobs are listed with their progress, unfinished ones first, and those of this peer's
// key have the buttons that fit their state.
func TestJobs(t *testing.T) {
	job := func(id, state, poster string, day int) control.Job {
		return control.Job{
			ID: id, State: state, Poster: poster, Signed: true, Created: time.Unix(int64(day)*86400, 0), Spec: control.JobSpec{URLs: []string{"http://" + id + ".example/", "http://x.example/"}, MaxPages: 500},
			JobCounts: control.JobCounts{Pending: 17, Outcomes: map[string]int64{"ok": 20, "duplicate": 3}},
		}
	}
	f := newFake()
	for i := range maxJobs {
		f.jobs = append(f.jobs, job(fmt.Sprint("old", i), "canceled", "own key", i-maxJobs))
	}
	f.jobs = append(f.jobs, job("run", "running", "own key", 1), job("hold", "paused", "own key", 2), job("other", "running", "another key", 3), job("end", "done", "own key", 9))
	s := serve(t, f)
	s.login()
	s.live.listJobs(t.Context())
	page := s.ask(http.MethodGet, "", "", nil).text
	rows := strings.Split(page, `<tr id="j-`)[1:]
	var ids []string
	for _, row := range rows {
		ids = append(ids, row[:strings.IndexByte(row, '"')])
	}
	if got := strings.Join(ids[:5], " "); got != "other hold run end old11" || len(ids) != maxJobs {
		t.Fatalf("%d jobs, %s", len(ids), got)
	}
	for i, buttons := range [][]string{nil, {"resume", "cancel"}, {"pause", "cancel"}, nil} {
		if n := strings.Count(rows[i], "<button"); n != len(buttons) {
			t.Errorf("job %s has %d buttons", ids[i], n)
		}
		for _, b := range buttons {
			if !strings.Contains(rows[i], `name="action" value="`+b+`"`) {
				t.Errorf("job %s has no button to %s it", ids[i], b)
			}
		}
	}
	for _, want := range []string{"http://run.example/", ">running<", ">23 <small>of 500<", ">17<"} {
		if !strings.Contains(rows[2], want) {
			t.Errorf("the row does not have %q: %s", want, rows[2])
		}
	}
	s.http.Jar = nil
	if page := s.ask(http.MethodGet, "", "", nil).text; !strings.Contains(page, "http://run.example/") || strings.Contains(page, "<button") {
		t.Error("without a login the jobs are missing, or have buttons")
	}
}

// TestRefusals: temporary refusals about a change of the ring are left out, all others are listed.
func TestRefusals(t *testing.T) {
	m := &model{at: time.Unix(10_000, 0), status: &control.Status{UptimeS: 600}}
	for name, c := range map[string]struct {
		refusals control.Refusals
		event    time.Duration // before now; 0: none
		listed   bool
	}{
		"temporary, at the start":       {control.Refusals{Requests: 7, Later: 7, AgoMS: 595_000}, 0, false},
		"temporary, long after it":      {control.Refusals{Requests: 1, Later: 1, AgoMS: 10_000}, 0, true},
		"temporary, after a join":       {control.Refusals{Requests: 1, Later: 1, AgoMS: 10_000}, 12 * time.Second, false},
		"for good, at the start":        {control.Refusals{Requests: 2, Later: 1, AgoMS: 595_000}, 0, true},
		"temporary, again and again":    {control.Refusals{Requests: manyRefused, Later: manyRefused, AgoMS: 595_000}, 0, true},
		"temporary, long after a death": {control.Refusals{Requests: 1, Later: 1, AgoMS: 10_000}, 2 * time.Minute, true},
	} {
		if m.log = nil; c.event > 0 {
			m.log = []control.RingEvent{{Time: m.at.Add(-c.event)}}
		}
		if got := m.matters(&Refused{Refusals: c.refusals}); got != c.listed {
			t.Errorf("%s: listed %v", name, got)
		}
	}
}

// TestAlone: only the single member of a ring is called that, and no worker.
func TestAlone(t *testing.T) {
	const alone = "only member of its ring"
	for name, c := range map[string]struct {
		change func(f *fake)
		alone  bool
	}{
		"single member":             {func(*fake) {}, true},
		"single member with worker": {func(f *fake) { f.near = []control.PeerLine{{Peer: name(1), Role: "worker"}} }, false},
		"joining":                   {func(f *fake) { f.status.State = "joining" }, false},
		"worker":                    {func(f *fake) { f.status.Role = "worker" }, false},
		"member without neighbors":  {func(f *fake) { f.status.Ring.Members = 3 }, false},
		"attached worker": {func(f *fake) {
			f.status.Role, f.near = "worker", []control.PeerLine{{Peer: name(1), Role: "ring"}}
		}, false},
	} {
		f := newFake()
		f.ofSize(1)
		c.change(f)
		if page := serve(t, f).ask(http.MethodGet, "", "", nil).text; strings.Contains(page, alone) != c.alone {
			t.Errorf("%s: the page calls the peer alone: %v", name, !c.alone)
		}
	}
}
