package optout

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// setter notes what it is asked for.
type setter struct {
	asked []string
	err   error
}

func (d *setter) SetOptOut(_ context.Context, s Subject, a Action) error {
	d.asked = append(d.asked, string(a)+" "+s.String())
	return d.err
}

func ask(f *Form, method, path string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

func TestForm(t *testing.T) {
	host := Subject{KindHost, "example.org"}
	for _, row := range []struct {
		name, method, path string
		form               url.Values
		answer             error
		status             int
		says               []string
		asked              string
	}{
		{"the form", http.MethodGet, "/", nil, nil, 200, []string{`<form method="post"`, "mailto:me@example.net"}, ""},
		{"what is to be shown", http.MethodPost, "/", url.Values{"name": {"Example.org"}, "action": {"opt-out"}}, nil, 200, []string{Token(host, Out), WellKnown, "_apoidea.example.org"}, ""},
		{"looked at", http.MethodPost, "/", url.Values{"name": {"example.org"}, "action": {"opt-out"}, "check": {"1"}}, nil, 200, []string{`role="status"`}, "opt-out host example.org"},
		{"a domain withdraws", http.MethodPost, "/", url.Values{"name": {"example.org"}, "kind": {"domain"}, "action": {"withdraw"}, "check": {"1"}}, nil, 200, []string{`role="status"`}, "withdraw domain example.org"},
		{"not shown", http.MethodPost, "/", url.Values{"name": {"example.org"}, "action": {"opt-out"}, "check": {"1"}}, errors.New("the line is not there <b>"), 409, []string{"not there &lt;b&gt;"}, "opt-out host example.org"},
		{"no name", http.MethodPost, "/", url.Values{"action": {"opt-out"}}, nil, 400, []string{`role="alert"`}, ""},
		{"a name that is script", http.MethodPost, "/", url.Values{"name": {`"><script>`}, "action": {"opt-out"}}, nil, 400, []string{`role="alert"`}, ""},
		{"no action", http.MethodPost, "/", url.Values{"name": {"example.org"}}, nil, 400, []string{`role="alert"`}, ""},
		{"too much", http.MethodPost, "/", url.Values{"name": {strings.Repeat("a", maxForm)}}, nil, 400, []string{`role="alert"`}, ""},
		{"elsewhere", http.MethodGet, "/x", nil, nil, 404, nil, ""},
		{"deleted", http.MethodDelete, "/", nil, nil, 405, nil, ""},
	} {
		d := &setter{err: row.answer}
		w := ask(NewForm(d, "mailto:me@example.net"), row.method, row.path, row.form)
		if w.Code != row.status || strings.Join(d.asked, ";") != row.asked {
			t.Errorf("%s: status %d, asked %v", row.name, w.Code, d.asked)
		}
		for _, text := range row.says {
			if !strings.Contains(w.Body.String(), text) {
				t.Errorf("%s: %q is missing in\n%s", row.name, text, w.Body)
			}
		}
		if strings.Contains(w.Body.String(), "<script") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: a script, or no policy against one", row.name)
		}
	}
}

// TestFormRate: beyond a burst requests are turned away, those that have sites looked at sooner,
// until time has passed.
func TestFormRate(t *testing.T) {
	d := &setter{}
	f := NewForm(d, "")
	look := url.Values{"name": {"example.org"}, "action": {"opt-out"}, "check": {"1"}}
	for i := range formBurst {
		w := ask(f, http.MethodPost, "/", look)
		if turned := w.Code == http.StatusTooManyRequests; turned != (i >= checkBurst) && i < formBurst-1 {
			t.Fatalf("request %d: status %d", i, w.Code)
		}
	}
	if len(d.asked) != checkBurst {
		t.Errorf("%d sites looked at, want %d", len(d.asked), checkBurst)
	}
}
