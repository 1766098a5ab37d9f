package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf16"
)

// Robots.txt that is no robots.txt.
//
// The trap: files without end, in lines of any length, a million lines, in UTF-16, as HTML, with CR
// alone; redirects that loop or lead to another host, where the rules are, 401, 403, 404; a
// Crawl-delay below nothing.
//
// A good crawler reads rules in any form that a person could have meant, and takes the bounds of
// its time from itself. Below /secret/ nothing is ever asked for here, as each file that can be
// read forbids it.
var robotsFamily = family{
	name:      "robots",
	does:      "robots.txt without end, in UTF-16, as HTML, of a million lines, with redirects and errors",
	quick:     true,
	seeds:     func(w *world) []string { return w.urls("robots", robotsNames...) },
	serve:     serveRobots,
	ownRobots: true,
	disallowed: func(name, path string) bool {
		if path == "/robots.txt" || strings.HasPrefix(path, "/robots-at/") {
			return false
		}
		return strings.HasPrefix(path, "/secret/") && !slices.Contains(openRobots, name)
	},
	check: checkRobots,
}

var robotsNames = []string{
	"endless", "line", "lines", "utf16le", "utf16be", "bom", "cr", "html", "spaces", "nul", "case", "groups", "e401", "e403", "e404", "e410", "e999", "loop", "other", "elsewhere", "hops", "delayneg", "empty", "bomb", "longvalue", "agent", "types", "encoded",
}

// openRobots are hosts that have no rules (RFC 9309, 2.3.1.3 and 2.3.1.2); the last two may be
// taken either way. A redirect to another host is followed: the rules there are those of "other"
// and "elsewhere". Those whose rules cannot be had are in the family waits.
var openRobots = []string{"e401", "e403", "e404", "e410", "empty", "html", "bomb", "loop", "e999"}

const secret = "User-agent: *\nDisallow: /secret/\n"

func serveRobots(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	if r.URL.Path != "/robots.txt" && !strings.HasPrefix(r.URL.Path, "/robots-at/") {
		links := []string{"/secret/a", "/%73ecret/b", "/secret/../secret/c", "/open/d"}
		if r.URL.Path != "/" {
			links = nil
		}
		writePage(rw, page(r.Host+r.URL.Path, links...))
		return
	}
	rw.Header().Set("Content-Type", "text/plain")
	write := func(s string) { _, _ = io.WriteString(rw, s) }
	var status int
	if _, err := fmt.Sscanf(name, "e%d", &status); err == nil {
		rw.WriteHeader(status)
		return
	}
	if text, fixed := robotsTexts[name]; fixed {
		write(text)
		return
	}
	switch name {
	case "endless":
		write(secret)
		for w.ctx.Err() == nil {
			if _, err := io.WriteString(rw, strings.Repeat("Disallow: /"+prose("x", 3)+"\n", 500)); err != nil {
				return
			}
		}
	case "utf16le", "utf16be":
		write(utf16Text(secret, name == "utf16be"))
	case "loop":
		http.Redirect(rw, r, "/robots.txt", http.StatusFound)
	case "other":
		http.Redirect(rw, r, w.url("robots", "rules", "/robots.txt"), http.StatusMovedPermanently)
	case "elsewhere":
		http.Redirect(rw, r, w.url("robots", "rules", "/robots-at/1"), http.StatusFound)
	case "hops":
		n := 0
		_, _ = fmt.Sscanf(r.URL.Path, "/robots-at/%d", &n)
		if n == 3 {
			write(secret)
			return
		}
		http.Redirect(rw, r, fmt.Sprintf("/robots-at/%d", n+1), http.StatusMovedPermanently)
	case "bomb":
		rw.Header().Set("Content-Encoding", "gzip")
		_, _ = rw.Write(bomb("gzip"))
	default:
		write(secret)
	}
}

// robotsTexts are files as they stand.
var robotsTexts = map[string]string{
	"line":      "# " + strings.Repeat("a", 20<<10) + "\n" + secret,
	"longvalue": "User-agent: *\nDisallow: /secret/" + "\nDisallow: /" + strings.Repeat("b", 20<<10) + "\n",
	"lines":     secret + strings.Repeat("Disallow: /x\n", 40_000),
	"bom":       "\xef\xbb\xbf" + secret,
	"cr":        strings.ReplaceAll(secret, "\n", "\r"),
	"html":      "<!DOCTYPE html><html><body>No such page</body></html>",
	"spaces":    "  User-agent\t :  *  \n\n   Disallow\t:\t/secret/   # not here\n",
	"nul":       "\x00\x00\n" + secret,
	"case":      "USER-AGENT: *\ndIsAlLoW: /secret/\n",
	"groups":    "User-agent: nobody\nDisallow: /\n\n" + secret + "\nUser-agent: other\nAllow: /\n",
	"delayneg":  secret + "Crawl-delay: -1e999\n",
	"empty":     "",
	"agent":     "User-agent: apoidea\nDisallow: /secret/\n\nUser-agent: *\nAllow: /\n",
	"types":     secret,
	"encoded":   "User-agent: *\nDisallow: /%73ecret/\n",
}

func utf16Text(s string, big bool) string {
	order := binary.AppendByteOrder(binary.LittleEndian)
	if big {
		order = binary.BigEndian
	}
	out := order.AppendUint16(nil, 0xfeff)
	for _, c := range utf16.Encode([]rune(s)) {
		out = order.AppendUint16(out, c)
	}
	return string(out)
}

func checkRobots(j *judge) {
	for _, name := range openRobots[:7] { // the others may be taken either way
		j.wants(name, "/")
	}
	// Where rules were read, what they leave open is crawled.
	for _, name := range []string{"line", "utf16le", "utf16be", "cr", "spaces", "groups", "lines", "hops", "other", "elsewhere"} {
		j.wants(name, "/open/d")
	}
	for name := range robotsTexts {
		if n := j.asked(name, "/robots.txt"); n > 2 {
			j.blame("robots: the robots.txt of %s was asked for %d times", name, n)
		}
	}
	for _, name := range []string{"endless", "bomb"} {
		for _, h := range j.hosts {
			if strings.HasPrefix(h.Host, name+".") && h.Bytes > 8<<20 {
				j.blame("robots: the robots.txt of %s sent %d MiB", name, h.Bytes>>20)
			}
		}
	}
}
