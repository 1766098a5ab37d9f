package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/scripts/harness"
)

// resultCases are about what users get.
var resultCases = []scenario{
	{name: "exports", words: "a redirect, a page and a failure in export urls, links and wacz", run: exports},
	{name: "read-only", words: "export and check on a read-only medium", run: readOnly},
	{name: "moved-archive", words: "archive files moved to other storage", run: movedArchive},
	{name: "left-out", words: "URLs left out by an earlier run", run: leftOut},
}

func exports(t *trial) {
	s := t.pages(map[string]string{
		"/":       redirect("/page"),
		"/page":   response("200 OK", html("Page", "/next", "/broken"), "Content-Type: text/html; charset=utf-8", `ETag: "v1"`, "Last-Modified: Sat, 28 Nov 2026 08:00:00 GMT"),
		"/next":   page("Next"),
		"/broken": "SMTP 220\r\n\r\n",
	})
	t.crawl("p", "--retries", "0", s.url("h1.web", "/"))
	from, to := s.url("h1.web", "/"), s.url("h1.web", "/page")
	lines := make(map[any]map[string]any)
	t.jsonLines(t.export("p", "urls"), func(u map[string]any) { lines[u["url"]] = u })
	t.want("urls: outcome of the redirect", fmt.Sprint(lines[from]["outcome"], " ", lines[from]["redirect"]), "redirect "+to)
	u := lines[to]
	t.want("of the page: type, hops, etag, last_modified", fmt.Sprint(u["mime"], " ", u["hops"], " ", u["etag"], " ", u["last_modified"]), `text/html 1 "v1" Sat, 28 Nov 2026 08:00:00 GMT`)
	_, timed := u["duration_ms"]
	t.want("duration_ms is there", timed, true)
	broken := lines[s.url("h1.web", "/broken")]["detail"]
	t.holds(broken != nil, "detail of a failure", broken, "words")
	t.want("links: edge in CSV", strings.Contains(t.export("p", "links"), from+","+to+",redirect"), true)
	found := false
	t.jsonLines(t.export("p", "links", "--json"), func(edge map[string]any) {
		found = found || edge["from"] == from && edge["to"] == to && edge["kind"] == "redirect"
	})
	t.want("edge in JSON", found, true)
	wacz(t, to)
}

// wacz reads the pages of a WACZ; the page that the first seed led to is the main page.
func wacz(t *trial, mainPage string) {
	name := t.at("p.wacz")
	t.export("p", "wacz", "-o", name)
	z := harness.Must(zip.OpenReader(name))
	defer func() { _ = z.Close() }()
	indexes := harness.Must(fs.Glob(z, "indexes/index.cdx*"))
	t.holds(len(indexes) > 0, "index that pywb takes", indexes, "one")
	var titles []string
	t.jsonLines(string(harness.Must(fs.ReadFile(z, "pages/pages.jsonl"))), func(p map[string]any) {
		if p["url"] != nil {
			titles = append(titles, fmt.Sprint(p["title"]))
		}
	})
	slices.Sort(titles)
	t.want("titles", titles, "[Next Page]")
	var pack map[string]any
	harness.Check(json.Unmarshal(harness.Must(fs.ReadFile(z, "datapackage.json")), &pack))
	t.want("main page", pack["mainPageUrl"], mainPage)
}

// jsonLines calls a function with the object of each line.
func (t *trial) jsonLines(text string, each func(object map[string]any)) {
	for line := range strings.Lines(text) {
		var object map[string]any
		harness.Check(json.Unmarshal([]byte(line), &object))
		each(object)
	}
}

func readOnly(t *trial) {
	s := t.pages(map[string]string{"/": page("front")})
	t.crawl("p", s.url("h1.web", "/"))
	dir := t.at("p")
	for _, command := range [][]string{{"export", "urls"}, {"export", "warc"}, {"check"}, {"status"}} {
		r, ok, err := t.apart(fmt.Sprintf("mount --bind %s %s; mount -o remount,ro,bind %s", dir, dir, dir), append(command, "--data-dir", dir)...)
		harness.Check(err)
		if !ok {
			t.skip("no read-only mount in a mount namespace of its own here")
			return
		}
		name := strings.Join(command, " ")
		t.lacks(name, r.text(), "in use by another process")
		if command[0] != "status" {
			t.want(name+": exit status", r.code, 0)
		}
		if name == "export urls" {
			t.want("lines", strings.Count(r.out, "\n"), 1)
		}
	}
}

func movedArchive(t *trial) {
	s := t.pages(map[string]string{"/": page("front", "/next"), "/next": page("next")})
	t.crawl("p", s.url("h1.web", "/"))
	files := harness.Must(filepath.Glob(filepath.Join(t.at("p"), "archive", "*.warc.gz")))
	t.holds(len(files) > 0, "archive files", len(files), "some")
	for _, f := range files {
		harness.Check(os.Rename(f, t.at(filepath.Base(f))))
	}
	r := t.apoidea("check", "--data-dir", t.at("p"))
	t.want("moved without a word: exit status of check", r.code, 1)
	t.has("check", r.text(), ".cdxj.moved")
	for _, f := range harness.Must(filepath.Glob(filepath.Join(t.at("p"), "archive", "*.cdxj"))) {
		harness.Check(os.Rename(f, f+".moved"))
	}
	r = t.apoidea("check", "--data-dir", t.at("p"))
	t.want("with the note: exit status of check", r.code, 0)
	before := s.total()
	r = t.apoidea("repair", "--data-dir", t.at("p"))
	t.want("of repair", r.code, 0)
	_ = t.crawl("p", s.url("h1.web", "/"))
	t.want("pages crawled again", s.total()-before, 0)
}

func leftOut(t *trial) {
	s := t.serve(func(r *http.Request, host string) string {
		var i int
		if n, _ := fmt.Sscanf(r.RequestURI, "/p/%d", &i); n != 1 {
			return ""
		}
		return page(fmt.Sprint(host, i), fmt.Sprintf("/p/%d", i+1), fmt.Sprintf("/p/%d", i+2))
	})
	first := t.crawl("p", s.url("h1.web", "/p/0"), "--max-pages", "3")
	t.has("first run", first.text(), "--max-pages")
	t.lacks("first run", first.text(), "--trap-rules off")
	second := t.crawl("p", s.url("h2.web", "/p/0"), "--max-depth", "0")
	t.want("second run: exit status", second.code, 0)
	t.lacks("second run", second.text(), "--max-pages", "--trap-rules", "skipped:")
	third := t.crawl("p", s.url("h3.web", "/p/0"), "--max-bytes-per-host", "300")
	t.has("a bound of the host", third.text(), "--max-bytes-per-host", "--again", "--allow-private", "--data-dir")
}
