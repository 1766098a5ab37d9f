package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/apoidea/apoidea/scripts/harness"
)

// seedCases are about where a crawl begins.
var seedCases = []scenario{
	{name: "seed-redirect", words: "a seed redirects to www, away from it, to another domain, over two hosts", run: seedRedirect},
	{name: "seed-ring", words: "the same in a ring of three, where workers are not owners", run: seedRing},
	{name: "seed-scope", words: "the same with an explicit --scope", run: seedScope},
	{name: "seed-https", words: "a seed redirects to https, with an own CA", run: seedHTTPS},
}

// moves maps hosts whose front page redirects to where it leads.
var moves = map[string]string{"one": "www.one", "www.two": "two", "three": "elsewhere", "four": "www.four", "www.four": "far"}

// moved serves hosts that redirect their front page.
func (t *trial) moved() (s *site) {
	s = t.serve(func(r *http.Request, host string) string {
		host = strings.TrimSuffix(host, ".localhost")
		switch to := moves[host]; {
		case r.RequestURI == "/robots.txt":
			return ""
		case to != "" && r.RequestURI == "/":
			return redirect(s.url(to, "/"))
		case r.RequestURI == "/":
			return page(host, "/next", s.url("stranger", "/"))
		default:
			return page(host + r.RequestURI)
		}
	})
	return s
}

func seedRedirect(t *trial) {
	s := t.moved()
	for seed, to := range map[string]string{"one": "www.one", "www.two": "two", "three": "elsewhere", "four": "far"} {
		r := t.crawl(seed, s.url(seed, "/"))
		t.want(seed+" to "+to+": exit status", r.code, 0)
		t.want("pages in the last line", number(r.out, "pages"), 2)
		t.want("/next asked", s.count(to, "/next"), 1)
	}
	t.want("other hosts asked", s.count("stranger", "/"), 0)
}

func seedRing(t *trial) {
	s := t.serve(nil)
	s.answer = func(r *http.Request, host string) string {
		host = strings.TrimSuffix(host, ".localhost")
		bare, isSeed := strings.CutPrefix(host, "old")
		switch {
		case r.RequestURI == "/robots.txt":
			return ""
		case isSeed:
			return redirect(s.url("www.new"+bare, "/"))
		}
		return page(host+r.RequestURI, "/next", s.url("stranger", "/"))
	}
	defer t.killPeers()
	const hosts = 12
	args := []string{"cluster", "up", "-n", "3", "--until-idle", "--dir", t.at("cluster"), "--allow-private", "--delay", "0", "--placement", "random"}
	for i := range hosts {
		args = append(args, s.url(fmt.Sprintf("old%d", i), "/"))
	}
	r := t.apoidea(args...)
	t.want("exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages"), 2*hosts)
	t.want("/next asked", s.count("", "/next"), hosts)
	t.want("other hosts asked", s.count("stranger", "/"), 0)
}

func seedScope(t *trial) {
	s := t.moved()
	r := t.crawl("in", s.url("one", "/"), "--scope", "www.one.localhost")
	t.want("--scope www.one: exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages"), 2)
	r = t.crawl("out", s.url("three", "/"), "--scope", "three.localhost")
	t.want("--scope three: pages in the last line", number(r.out, "pages"), 0)
	t.has("output", r.text(), "--scope", "elsewhere.localhost")
	r = t.crawl("list", s.url("three", "/"), s.url("plain", "/"), "--scope", "three.localhost", "--scope", "plain.localhost")
	t.want("beside another seed: pages in the last line", number(r.out, "pages"), 2)
	t.has("export urls", t.export("list", "urls"), "--scope elsewhere.localhost")
}

func seedHTTPS(t *trial) {
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, html("secure"+r.RequestURI, "/next"))
	}))
	defer secure.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	harness.Check(os.WriteFile(t.at("ca.pem"), ca, 0o600))
	plain := t.pages(map[string]string{"/": redirect(secure.URL + "/")})
	cmd := t.command(t, t.crawlArgs("p", plain.url("site", "/"))...)
	cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+t.at("ca.pem"))
	r := harness.Must(finish(cmd))
	t.want("exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages"), 2)
}
