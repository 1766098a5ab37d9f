package main

import (
	"fmt"
	"net/http"
	"strings"
)

// Names of hosts.
//
// The trap: one host under many spellings (case, a dot at the end, userinfo, the default port,
// escapes, full-width letters, soft hyphens); labels and names that are too long; underscores,
// hyphens, punycode that is none; ports that belong to other services; links with no host, two, or
// a space in it.
//
// A good crawler knows one host under all its spellings, so that it keeps one delay and asks for
// each page once; and drops what no resolver could take.
var namesFamily = family{
	name:  "names",
	does:  "one host under many spellings, labels too long, odd punycode, ports of other services",
	quick: true,
	seeds: func(w *world) []string { return w.urls("names", "page") },
	serve: func(w *world, rw http.ResponseWriter, r *http.Request, name string) {
		if name == "page" && r.URL.Path == "/" {
			writePage(rw, page("names", nameLinks(w)...))
			return
		}
		writePage(rw, page(r.Host+r.URL.Path))
	},
	check: func(j *judge) {
		one := fmt.Sprintf("one.names.test:%d", j.w.port)
		for _, h := range j.hosts {
			if h.Host != one && strings.Contains(h.Host, "one") {
				j.blame("names: %s was asked beside %s", h.Host, one)
			}
		}
		for path, n := range j.w.audit.paths(one) {
			if n > 1 && path != "/robots.txt" {
				j.blame("names: %s%s was asked for %d times", one, path, n)
			}
		}
		if j.w.audit.asked(one, "/a") == 0 {
			j.blame("names: %s/a was not asked for", one)
		}
	},
}

func nameLinks(w *world) []string {
	p := fmt.Sprintf(":%d", w.port)
	links := []string{
		"//one.names.test" + p + "/a", "http://ONE.Names.TEST" + p + "/a", "http://one.names.test." + p + "/a", "http://user:pass@one.names.test" + p + "/a",
		"http://one.names.test:0" + p[1:] + "/a", "http://%6fne.names.test" + p + "/a", "http://ｏｎｅ.names.test" + p + "/a", "http://o\u00adne.names.test" + p + "/a",
		"http:\\\\one.names.test" + p + "\\a", "http:/\t/one.na\nmes.test" + p + "/a", "HTTP://one.names.test" + p + "/a#x", "http://one。names｡test" + p + "/a",
		"http://one.names.test" + p + "/./b/../a", "http://one.names.test" + p + "/%61", " http://one.names.test" + p + "/a ",
		"http://" + strings.Repeat("a", 63) + ".names.test" + p + "/", "http://" + strings.Repeat("a", 64) + ".names.test" + p + "/",
		"http://" + strings.Repeat("a.", 115) + "names.test" + p + "/", "http://" + strings.Repeat("a.", 130) + "names.test" + p + "/",
		"http://under_score.names.test" + p + "/", "http://-lead.names.test" + p + "/", "http://trail-.names.test" + p + "/", "http://a--b.names.test" + p + "/",
		"http://xn--.names.test" + p + "/", "http://xn--a.names.test" + p + "/", "http://xn--99999999999.names.test" + p + "/", "http://bücher.names.test" + p + "/",
		"http://\u0130.names.test" + p + "/", "http://\u2260.names.test" + p + "/", "http://\u226e.names.test" + p + "/", "http://\u2135\u2138.names.test" + p + "/",
		"http://faß.names.test" + p + "/", "http://\u200d.names.test" + p + "/", "http://..names.test" + p + "/", "http://.names.test" + p + "/", "http://names..test" + p + "/",
		"http://a b.names.test" + p + "/", "http://a%20b.names.test" + p + "/", "http://a%00b.names.test" + p + "/", "http://a<b.names.test" + p + "/",
		"http://a@b@c.names.test" + p + "/", "http:///" + "x", "http://", "http:", "//", "http://:80/", "http://?", "http://#", "http://[/", "http://[::/", "http://]/",
		"http://names.test" + p + "/", "http://*.names.test" + p + "/", "http://a,b.names.test" + p + "/",
	}
	for _, port := range []string{"22", "25", "110", "143", "993", "6667", "65536", "99999999999", "-1", "+80", "0", "0x50", "80:80", "http"} {
		links = append(links, "http://port.names.test:"+port+"/")
	}
	return links
}
