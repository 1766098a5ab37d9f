package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
)

// seedCases are about where a crawl begins.
var seedCases = []scenario{
	{name: "seed-redirect", words: "a seed redirects to www, away from it, to another domain, over two hosts", run: seedRedirect},
	{name: "seed-ring", words: "the same in a ring of three, where workers are not owners", run: seedRing},
	{name: "seed-list", words: "the same in a list of seeds", run: seedList},
	{name: "seed-scope", words: "the same with an explicit --scope", run: seedScope},
	{name: "seed-https", words: "a seed redirects to https and www, with an own CA", run: seedHTTPS},
	{name: "seed-comment", words: "a list of seeds with comments", run: seedComment},
	{name: "sitemaps", words: "sitemaps and feeds as seeds, linked, and --sitemap", run: sitemaps},
	{name: "resolv-search", words: "a short host name with search in resolv.conf", run: resolvSearch},
}

// moves maps hosts whose front page redirects to where it leads.
var moves = map[string]string{"one": "www.one", "www.two": "two", "three": "elsewhere", "four": "www.four", "www.four": "far"}

// moved serves hosts that redirect their front page.
func (t *trial) moved() (s *site, err error) {
	s, err = t.serve(func(r *http.Request, host string) string {
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
	return s, err
}

func seedRedirect(t *trial) error {
	s, err := t.moved()
	if err != nil {
		return err
	}
	for seed, to := range map[string]string{"one": "www.one", "www.two": "two", "three": "elsewhere", "four": "far"} {
		r, err := t.crawl(seed, s.url(seed, "/"))
		if err != nil {
			return err
		}
		t.want(seed+" to "+to+": exit status", r.code, 0)
		t.want("pages in the last line", number(r.out, "pages"), 2)
		t.want("/next asked", s.count(to, "/next"), 1)
	}
	t.want("other hosts asked", s.count("stranger", "/"), 0)
	return nil
}

func seedRing(t *trial) error {
	s, err := t.serve(nil)
	if err != nil {
		return err
	}
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
	r, err := t.apoidea(args...)
	if err != nil {
		return err
	}
	t.want("exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages"), 2*hosts)
	t.want("/next asked", s.count("", "/next"), hosts)
	t.want("other hosts asked", s.count("stranger", "/"), 0)
	return nil
}

func seedList(t *trial) error {
	s, err := t.moved()
	if err != nil {
		return err
	}
	list := t.at("seeds.txt")
	if err := os.WriteFile(list, []byte(s.url("one", "/")+"\n"+s.url("www.two", "/")+"\n"+s.url("plain", "/")+"\n"+s.url("three", "/")+"\n"), 0o600); err != nil {
		return err
	}
	r, err := t.crawl("p", "--seeds", list)
	if err != nil {
		return err
	}
	t.want("exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages"), 8)
	for _, to := range []string{"www.one", "two", "plain", "elsewhere"} {
		t.want(to+"/next asked", s.count(to, "/next"), 1)
	}
	t.want("other hosts asked", s.count("stranger", "/"), 0)
	return nil
}

func seedScope(t *trial) error {
	s, err := t.moved()
	if err != nil {
		return err
	}
	r, err := t.crawl("in", s.url("one", "/"), "--scope", "www.one.localhost")
	if err != nil {
		return err
	}
	t.want("--scope www.one: exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages"), 2)
	if r, err = t.crawl("out", s.url("three", "/"), "--scope", "three.localhost"); err != nil {
		return err
	}
	t.want("--scope three: pages in the last line", number(r.out, "pages"), 0)
	t.has("output", r.text(), "--scope", "elsewhere.localhost")
	if r, err = t.crawl("list", s.url("three", "/"), s.url("plain", "/"), "--scope", "three.localhost", "--scope", "plain.localhost"); err != nil {
		return err
	}
	t.want("beside another seed: pages in the last line", number(r.out, "pages"), 2)
	text, err := t.export("list", "urls")
	t.has("export urls", text, "--scope elsewhere.localhost")
	return err
}

func seedHTTPS(t *trial) error {
	a, err := t.authority()
	if err != nil {
		return err
	}
	secure, err := t.serve(func(r *http.Request, _ string) string {
		if r.RequestURI == "/robots.txt" {
			return ""
		}
		return page("secure"+r.RequestURI, "/next")
	}, a)
	if err != nil {
		return err
	}
	plain, err := t.pages(map[string]string{"/": redirect(strings.Replace(secure.url("www.site", "/"), "http:", "https:", 1))})
	if err != nil {
		return err
	}
	cmd := t.command(t, t.crawlArgs("p", plain.url("site", "/"))...)
	cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+t.at("ca.pem"))
	r, err := finish(cmd)
	if err != nil {
		return err
	}
	t.want("exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages"), 2)
	return nil
}

func seedComment(t *trial) error {
	s, err := t.pages(map[string]string{"/a": page("a"), "/b": page("b"), "/c#top": "", "/c": page("c")})
	if err != nil {
		return err
	}
	list := t.at("seeds.txt")
	text := "# first\n" + s.url("h1.web", "/a") + " # one\n" + s.url("h1.web", "/b") + "\t# two\n\n  # three\n" + s.url("h1.web", "/c#top") + "\n"
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		return err
	}
	r, err := t.crawl("p", "--seeds", list)
	if err != nil {
		return err
	}
	t.want("exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages"), 3)
	t.want("requests", s.total(), 3)
	return nil
}

func sitemaps(t *trial) error {
	by := make(map[string]string)
	s, err := t.serve(func(r *http.Request, _ string) string { return by[r.RequestURI] })
	if err != nil {
		return err
	}
	xml := func(path string) string {
		return `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>` + s.url("h1.web", path) + "</loc></url></urlset>"
	}
	rss := func(path string) string {
		return `<?xml version="1.0"?><rss version="2.0"><channel><title>f</title><item><link>` + s.url("h1.web", path) + "</link></item></channel></rss>"
	}
	atom := `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="` + s.url("h1.web", "/of-atom") + `"/></entry></feed>`
	by["/map.xml"] = response("200 OK", xml("/of-map"), "Content-Type: application/xml")
	by["/feed"] = response("200 OK", rss("/of-feed"), "Content-Type: application/rss+xml")
	by["/atom"] = response("200 OK", atom, "Content-Type: application/atom+xml")
	by["/packed.xml.gz"] = response("200 OK", packed(xml("/of-packed")), "Content-Type: application/gzip")
	by["/cut.xml"] = raw("200 OK", xml("/of-cut"), "Content-Type: text/xml", "Content-Length: 9999")
	by["/list.txt"] = response("200 OK", s.url("h1.web", "/of-list")+"\n", "Content-Type: text/plain")
	by["/"] = page("front", "/linked.xml")
	by["/linked.xml"] = response("200 OK", xml("/of-linked"), "Content-Type: text/xml")
	for _, p := range []string{"/of-map", "/of-feed", "/of-atom", "/of-packed", "/of-list", "/of-linked", "/of-cut"} {
		by[p] = page(p)
	}
	r, err := t.crawl("p", s.url("h1.web", "/map.xml"), s.url("h1.web", "/feed"), s.url("h1.web", "/atom"), s.url("h1.web", "/packed.xml.gz"), s.url("h1.web", "/cut.xml"),
		s.url("h1.web", "/"), "--sitemap", s.url("h1.web", "/list.txt"))
	if err != nil {
		return err
	}
	t.want("exit status", r.code, 0)
	for p := range by {
		if strings.HasPrefix(p, "/of-") {
			t.want(p+" asked", s.count("", p), 1)
		}
	}
	return nil
}

func resolvSearch(t *trial) error {
	// The port of a server in resolv.conf is 53, on an address that nothing else has.
	const server = "127.5.3.53"
	if _, err := t.serveDNS(server+":53", func(string) []string { return []string{"127.0.0.1"} }, false); err != nil {
		t.skip("port 53 of " + server + ": " + err.Error())
		return nil
	}
	s, err := t.pages(map[string]string{"/": page("front")})
	if err != nil {
		return err
	}
	resolv := t.at("resolv.conf")
	if err := os.WriteFile(resolv, []byte("search corp.example\nnameserver "+server+"\n"), 0o600); err != nil {
		return err
	}
	r, ok, err := t.apart("mount --bind "+resolv+" /etc/resolv.conf", t.crawlArgs("p", "--retries", "0", strings.Replace(s.url("intranet", "/"), ".localhost", "", 1))...)
	if err != nil {
		return err
	}
	if !ok {
		t.skip("no mount namespace of its own here")
		return nil
	}
	t.want("exit status", r.code, 0)
	t.want("pages in the last line", number(r.out, "pages?"), 1)
	return nil
}
