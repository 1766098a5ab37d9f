package webgen

import (
	"bytes"
	"strconv"
	"strings"
)

// rules are the rules of a host's robots.txt for all agents.
type rules struct {
	missing  bool // there is no robots.txt: 404, everything is allowed
	shut     int  // section that is disallowed completely, -1 none
	half     int  // section disallowed except for pages whose number begins with 1, -1 none: longest match decides
	wildcard bool // "/*77.html$" is disallowed
	sitemap  bool
}

func (w *Web) rulesOf(host int) rules {
	d := w.draw(saltRobots, host, 0)
	r := rules{shut: -1, half: -1, sitemap: unit(w.draw(saltSitemap, host, 0)) < w.cfg.SitemapShare}
	if unit(d) >= w.cfg.RobotsShare {
		r.missing = d&1 == 0 && !r.sitemap && w.cfg.CrawlDelay == 0
		return r
	}
	r.shut = scale(mix(d), sections)
	if d&2 == 0 {
		r.half = (r.shut + 1 + scale(mix(d+1), sections-1)) % sections
	}
	r.wildcard = d&4 == 0
	return r
}

// allows evaluates RFC 9309, section 2.2.2, for the rules written and the paths served here.
func (r rules) allows(n int) bool {
	if n == 0 {
		return true
	}
	if n%sections == r.shut {
		return false
	}
	number := strconv.Itoa(n)
	if n%sections == r.half && number[0] != '1' {
		return false
	}
	if !r.wildcard || !strings.HasSuffix(number, "77") {
		return true
	}
	// "Allow: /s9/1" against "Disallow: /*77.html$": the longer pattern wins, and that is the
	// second.
	return false
}

func (w *Web) appendRobots(dst []byte, host int, port string) []byte {
	r := w.rulesOf(host)
	b := bytes.NewBuffer(dst)
	b.WriteString("# host " + strconv.Itoa(host) + "\nUser-agent: OtherBot\nDisallow: /\n\nUser-agent: *\n")
	if r.shut >= 0 {
		b.WriteString("Disallow: /s" + strconv.Itoa(r.shut) + "/\n")
	}
	if r.half >= 0 {
		s := strconv.Itoa(r.half)
		b.WriteString("Disallow: /s" + s + "/\nAllow: /s" + s + "/1\n")
	}
	if r.wildcard {
		b.WriteString("Disallow: /*77.html$\n")
	}
	if r.shut < 0 {
		b.WriteString("Disallow:\n")
	}
	if w.cfg.CrawlDelay > 0 {
		b.WriteString("Crawl-delay: " + strconv.FormatFloat(w.cfg.CrawlDelay.Seconds(), 'f', -1, 64) + "\n")
	}
	if r.sitemap {
		b.WriteString("\nSitemap: ")
		b.Write(w.appendOrigin(nil, host, port))
		b.WriteString("/sitemap.xml\n")
	}
	return b.Bytes()
}
