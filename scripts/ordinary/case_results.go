package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// resultCases are about what users get.
var resultCases = []scenario{
	{name: "exports", words: "a redirect, a page and a failure in export urls, links and wacz", run: exports},
	{name: "read-only", words: "export and check on a read-only medium", run: readOnly},
	{name: "moved-archive", words: "archive files moved to other storage", run: movedArchive},
	{name: "left-out", words: "URLs left out by an earlier run", run: leftOut},
}

func exports(t *trial) error {
	s, err := t.pages(map[string]string{
		"/":       redirect("/page"),
		"/page":   response("200 OK", html("Page", "/next", "/broken"), "Content-Type: text/html; charset=utf-8", `ETag: "v1"`, "Last-Modified: Sat, 28 Nov 2026 08:00:00 GMT"),
		"/next":   page("Next"),
		"/broken": "SMTP 220\r\n\r\n",
	})
	if err != nil {
		return err
	}
	if _, err := t.crawl("p", "--retries", "0", s.url("h1.web", "/")); err != nil {
		return err
	}
	from, to := s.url("h1.web", "/"), s.url("h1.web", "/page")
	text, err := t.export("p", "urls")
	if err != nil {
		return err
	}
	lines := make(map[any]map[string]any)
	err = jsonLines(text, func(u map[string]any) { lines[u["url"]] = u })
	t.want("urls: outcome of the redirect", fmt.Sprint(lines[from]["outcome"], " ", lines[from]["redirect"]), "redirect "+to)
	u := lines[to]
	t.want("of the page: type, hops, etag, last_modified", fmt.Sprint(u["mime"], " ", u["hops"], " ", u["etag"], " ", u["last_modified"]), `text/html 1 "v1" Sat, 28 Nov 2026 08:00:00 GMT`)
	_, timed := u["duration_ms"]
	t.want("duration_ms is there", timed, true)
	broken := lines[s.url("h1.web", "/broken")]["detail"]
	t.holds(broken != nil, "detail of a failure", broken, "words")
	if err != nil {
		return err
	}
	if text, err = t.export("p", "links"); err != nil {
		return err
	}
	t.want("links: edge in CSV", strings.Contains(text, from+","+to+",redirect"), true)
	if text, err = t.export("p", "links", "--json"); err != nil {
		return err
	}
	found := false
	err = jsonLines(text, func(edge map[string]any) {
		found = found || edge["from"] == from && edge["to"] == to && edge["kind"] == "redirect"
	})
	t.want("edge in JSON", found, true)
	if err != nil {
		return err
	}
	return wacz(t, to)
}

// wacz reads the pages of a WACZ; the first seed that led to a page is the main page.
func wacz(t *trial, mainPage string) error {
	name := t.at("p.wacz")
	if _, err := t.export("p", "wacz", "-o", name); err != nil {
		return err
	}
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	indexes, err := fs.Glob(z, "indexes/index.cdx*")
	t.holds(err == nil && len(indexes) > 0, "index that pywb takes", indexes, "one")
	text, err := fs.ReadFile(z, "pages/pages.jsonl")
	if err != nil {
		return err
	}
	var titles []string
	err = jsonLines(string(text), func(p map[string]any) {
		if p["url"] != nil {
			titles = append(titles, fmt.Sprint(p["title"]))
		}
	})
	slices.Sort(titles)
	t.want("titles", titles, "[Next Page]")
	var pack map[string]any
	text, readErr := fs.ReadFile(z, "datapackage.json")
	if err := errors.Join(err, readErr, json.Unmarshal(text, &pack)); err != nil {
		return err
	}
	t.want("main page", pack["mainPageUrl"], mainPage)
	return nil
}

// jsonLines calls a function with the object of each line.
func jsonLines(text string, each func(object map[string]any)) error {
	for line := range strings.Lines(text) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			return err
		}
		each(object)
	}
	return nil
}

func readOnly(t *trial) error {
	s, err := t.pages(map[string]string{"/": page("front")})
	if err != nil {
		return err
	}
	if _, err := t.crawl("p", s.url("h1.web", "/")); err != nil {
		return err
	}
	dir := t.at("p")
	for _, command := range [][]string{{"export", "urls"}, {"export", "warc"}, {"check"}, {"status"}} {
		r, ok, err := t.apart(fmt.Sprintf("mount --bind %s %s; mount -o remount,ro,bind %s", dir, dir, dir), append(command, "--data-dir", dir)...)
		if err != nil {
			return err
		}
		if !ok {
			t.skip("no read-only mount in a mount namespace of its own here")
			return nil
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
	return nil
}

func movedArchive(t *trial) error {
	s, err := t.pages(map[string]string{"/": page("front", "/next"), "/next": page("next")})
	if err != nil {
		return err
	}
	if _, err := t.crawl("p", s.url("h1.web", "/")); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(t.at("p"), "archive", "*.warc.gz"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no archive: %w", err)
	}
	for _, f := range files {
		if err := os.Rename(f, t.at(filepath.Base(f))); err != nil {
			return err
		}
	}
	r, err := t.apoidea("check", "--data-dir", t.at("p"))
	if err != nil {
		return err
	}
	t.want("moved without a word: exit status of check", r.code, 1)
	t.has("check", r.text(), ".cdxj.moved")
	indexes, err := filepath.Glob(filepath.Join(t.at("p"), "archive", "*.cdxj"))
	if err != nil {
		return err
	}
	for _, f := range indexes {
		if err := os.Rename(f, f+".moved"); err != nil {
			return err
		}
	}
	if r, err = t.apoidea("check", "--data-dir", t.at("p")); err != nil {
		return err
	}
	t.want("with the note: exit status of check", r.code, 0)
	before := s.total()
	if r, err = t.apoidea("repair", "--data-dir", t.at("p")); err != nil {
		return err
	}
	t.want("of repair", r.code, 0)
	if _, err = t.crawl("p", s.url("h1.web", "/")); err != nil {
		return err
	}
	t.want("pages crawled again", s.total()-before, 0)
	return nil
}

func leftOut(t *trial) error {
	s, err := t.serve(func(r *http.Request, host string) string {
		var i int
		if n, _ := fmt.Sscanf(r.RequestURI, "/p/%d", &i); n != 1 {
			return ""
		}
		return page(fmt.Sprint(host, i), fmt.Sprintf("/p/%d", i+1), fmt.Sprintf("/p/%d", i+2))
	})
	if err != nil {
		return err
	}
	first, err := t.crawl("p", s.url("h1.web", "/p/0"), "--max-pages", "3")
	if err != nil {
		return err
	}
	t.has("first run", first.text(), "--max-pages")
	t.lacks("first run", first.text(), "--trap-rules off")
	second, err := t.crawl("p", s.url("h2.web", "/p/0"), "--max-depth", "0")
	if err != nil {
		return err
	}
	t.want("second run: exit status", second.code, 0)
	t.lacks("second run", second.text(), "--max-pages", "--trap-rules", "skipped:")
	third, err := t.crawl("p", s.url("h3.web", "/p/0"), "--max-bytes-per-host", "300")
	if err != nil {
		return err
	}
	t.has("a bound of the host", third.text(), "--max-bytes-per-host", "--again", "--allow-private", "--data-dir")
	return nil
}
