package dashboard

import (
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
		`<data id="n-pages" value="12345">12` + "\u202f" + `345</data>`, "peers known here", "h0.example", ">peer8<", "The 12 busiest of 40", "apoidea dashboard", "no host of its",
		"<title>Others crawl · Apoidea 00000000</title>", `<span id="headline">Others crawl</span>`, `data-title=" · Apoidea 00000000"`,
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
		h.Name, h.Worker, h.Owner = bad, bad, ""
	}
	f.crawled.Hosts[0].Owner = bad
	f.limits.Holds = []control.Hold{{Rule: bad, Effect: bad, Why: bad, Ends: bad}}
	f.limits.Settings = []control.Setting{{Key: bad, Value: bad, Default: bad, About: bad, Changed: true}}
	f.refused = []Refused{{Peer: bad, Refusals: control.Refusals{Requests: 1, Request: bad, Why: bad}}}
	f.circle.Self.Peer = bad
	for i := range f.circle.Others {
		p := &f.circle.Others[i]
		p.Peer, p.Addr, p.Side, p.Crawls = bad, bad, bad, 3
	}
	for _, scheme := range []string{"", "javascript:", "data:", "http://"} {
		f.recent.Note(Outcome{URL: scheme + bad, Result: bad, Detail: bad, Failed: true})
	}
	s := serve(t, f)
	s.live.note(control.RingEvent{Time: time.Now(), Event: bad, Peer: bad, Text: bad})
	root, err := html.Parse(strings.NewReader(s.ask(http.MethodGet, "?span="+"%22%3E%3Cscript%3E", "", nil).text))
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
