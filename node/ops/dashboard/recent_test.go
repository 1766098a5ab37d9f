package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRecent: the last few URLs are kept and no more, whatever strangers name; what failed stays
// longer than what came after it.
func TestRecent(t *testing.T) {
	f := newFake()
	f.recent.Note(Outcome{At: time.Now().Add(-time.Hour), URL: "http://old.example/", Result: "timeout", Detail: strings.Repeat("x", 1000), Failed: true})
	f.recent.Note(Outcome{URL: "http://" + strings.Repeat("y", 5000), Result: "ok"})
	if all, _ := f.recent.Lately(); len(all[0].URL) > maxRecentURL || all[0].Link() != "" || len(all[1].Detail) > maxDetail {
		t.Errorf("%d bytes of a URL are kept, linked %q", len(all[0].URL), all[0].Link())
	}
	for i := range 3 * maxRecent {
		f.recent.Note(Outcome{At: time.Now(), URL: fmt.Sprintf("http://h%d.example/", i), Result: "ok", Status: 200})
	}
	all, failed := f.recent.Lately()
	if len(all) != maxRecent || len(failed) != 1 || all[0].URL != "http://h29.example/" || failed[0].Result != "timeout" {
		t.Errorf("%+v, %+v", all, failed)
	}
	text := serve(t, f).ask(http.MethodGet, "", "", nil).text
	for _, want := range []string{`<a href="http://h29.example/" rel="noopener noreferrer" target="_blank">`, "ok 200, 0 s ago", "timeout: x", "1 h 0 min ago", `href="/words"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
}

func TestWords(t *testing.T) {
	res := serve(t, newFake()).ask(http.MethodGet, "words", "", nil)
	if res.StatusCode != http.StatusOK || !strings.Contains(res.text, `<dt id="lease">lease</dt>`) {
		t.Errorf("%s: %s", res.Status, res.text)
	}
}
