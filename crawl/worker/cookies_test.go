package worker

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/link"
)

// TestCookieWalls checks pages that a redirect hides until its cookie is sent back.
func TestCookieWalls(t *testing.T) {
	const page = "http://a.example/page"
	set := func(rw http.ResponseWriter, value, to string) {
		rw.Header().Set("Set-Cookie", "session="+value+"; Path=/; HttpOnly")
		rw.Header().Set("Location", to)
		rw.WriteHeader(http.StatusFound)
	}
	for _, tt := range []struct {
		name  string
		wall  func(rw http.ResponseWriter, r *http.Request) // of a request for page without session=in
		off   bool
		want  link.Outcome
		asked int
	}{
		{"to itself", func(rw http.ResponseWriter, r *http.Request) { set(rw, "in", r.URL.Path) }, false, link.OutcomeOK, 2},
		{"to a consent host that leads back", func(rw http.ResponseWriter, _ *http.Request) {
			set(rw, "in", "http://consent.example/ask?back=http%3A%2F%2Fa.example%2Fpage")
		}, false, link.OutcomeOK, 2},
		{"to a consent host that knows where it came from", func(rw http.ResponseWriter, _ *http.Request) {
			set(rw, "in", "http://consent.example/ask?id=7")
		}, false, link.OutcomeOK, 2},
		{"for ever, with another cookie each time", func(rw http.ResponseWriter, r *http.Request) {
			set(rw, fmt.Sprint(len(r.Header.Get("Cookie"))), r.URL.Path)
		}, false, link.OutcomeRedirect, 2},
		{"without a cookie", func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, r.URL.Path, http.StatusFound)
		}, false, link.OutcomeRedirect, 1},
		{"with --cookies off", func(rw http.ResponseWriter, r *http.Request) { set(rw, "in", r.URL.Path) }, true, link.OutcomeRedirect, 1},
		{"with a cookie for another site", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Set-Cookie", "session=in; Domain=other.test")
			http.Redirect(rw, r, r.URL.Path, http.StatusFound)
		}, false, link.OutcomeRedirect, 1},
		{"that sets a cookie which no standard allows", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Add("Set-Cookie", `state={"a":[1,"\u00e9"]}; Domain=.example`)
			set(rw, "in", r.URL.Path)
		}, false, link.OutcomeOK, 2},
		{"with a cookie that has expired", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Set-Cookie", "session=in; Expires=Thu, 01-Jan-1970 00:00:00 GMT")
			http.Redirect(rw, r, r.URL.Path, http.StatusFound)
		}, false, link.OutcomeRedirect, 1},
		{"with a cookie of another path", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Set-Cookie", "session=in; Path=/pag")
			http.Redirect(rw, r, r.URL.Path, http.StatusFound)
		}, false, link.OutcomeRedirect, 1},
		{"with a cookie that is too large", func(rw http.ResponseWriter, r *http.Request) {
			set(rw, strings.Repeat("x", 17<<10), r.URL.Path)
		}, false, link.OutcomeRedirect, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				asked := 0
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					switch c, _ := r.Cookie("session"); {
					case r.Host != "a.example" || r.URL.Path != "/page":
						http.NotFound(rw, r)
						if r.Host != "a.example" && r.Header.Get("Cookie") != "" {
							t.Errorf("%s got the cookies of another host", r.Host)
						}
					case c != nil && c.Value == "in":
						asked++
						_, _ = rw.Write([]byte("content"))
					default:
						asked++
						tt.wall(rw, r)
					}
				}, []string{page}, func(x *world) { x.cfg.NoCookies = tt.off })
				x.crawl()
				if got := link.Outcome(x.done(page).GetOutcome()); got != tt.want || asked != tt.asked {
					t.Errorf("outcome %s after %d requests, want %s after %d", got, asked, tt.want, tt.asked)
				}
			})
		})
	}
}

// TestCookieValues checks that cookies are sent back as they came, also to robots.txt.
func TestCookieValues(t *testing.T) {
	for set, want := range map[string]string{
		`s={"a":1, "b":2}`: `s={"a":1, "b":2}`, "s=caf\xc3\xa9": "s=caf\xc3\xa9", `a[b]="x y"`: `a[b]="x y"`, "justvalue": "justvalue", " s = 1 ; HttpOnly": "s=1",
		"s=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT": "s=1", "s=1; Max-Age=0": "", "s=1; Secure": "", "s=1; Domain=b.example": "", "s=a\x01": "",
	} {
		t.Run(set, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				got := make(map[string]string)
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					got[r.URL.Path] = r.Header.Get("Cookie")
					switch r.URL.Path {
					case "/robots.txt":
						rw.Header().Set("Set-Cookie", set)
						http.Redirect(rw, r, "/rules", http.StatusFound)
					case "/rules":
						_, _ = rw.Write([]byte("User-agent: *\nDisallow: /no"))
					}
				}, []string{"http://a.example/", "http://a.example/no"})
				x.crawl()
				if got["/rules"] != want || got["/"] != want {
					t.Errorf("robots.txt got %q, the page %q; want %q", got["/rules"], got["/"], want)
				}
				if _, asked := got["/no"]; asked {
					t.Error("a page that robots.txt behind the cookie disallows was asked for")
				}
			})
		})
	}
}

// TestCookiesAreBounded checks that a host that sets ever more cookies gets a bounded number of
// them.
func TestCookiesAreBounded(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		var seeds []string
		for i := range 40 {
			seeds = append(seeds, fmt.Sprintf("http://a.example/%d", i))
		}
		most := 0
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			most = max(most, len(r.Header.Get("Cookie")))
			rw.Header().Set("Set-Cookie", fmt.Sprintf("n%s=%s", strings.TrimPrefix(r.URL.Path, "/"), strings.Repeat("x", 3000)))
		}, seeds)
		x.crawl()
		if most < 10_000 || most > 17<<10 {
			t.Errorf("up to %d bytes of cookies were sent, want about 16 KiB", most)
		}
	})
}

// TestCookiesReplaced checks that a cookie that each answer replaces does not use up the bound: a
// cookie of the first answer is sent to the end.
func TestCookiesReplaced(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		var seeds []string
		for i := range 60 {
			seeds = append(seeds, fmt.Sprintf("http://a.example/%d", i))
		}
		first := true
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			if first {
				rw.Header().Set("Set-Cookie", "lang=de; Path=/")
			} else if !strings.Contains(r.Header.Get("Cookie"), "lang=de") {
				t.Errorf("%s without the first cookie", r.URL)
			}
			first = false
			rw.Header().Add("Set-Cookie", "session="+strings.Repeat("x", 3000)+"; Path=/")
		}, seeds)
		x.crawl()
	})
}
