package main

import (
	"archive/zip"
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// resultCases are about what users get.
var resultCases = []scenario{
	{name: "export-redirects", words: "redirects in export links and urls", run: exportRedirects},
	{name: "export-urls", words: "fields of export urls", run: exportURLs},
	{name: "wacz", words: "index, dates, titles and main page of a WACZ", run: wacz},
	{name: "revisits", words: "WARC-Truncated of revisit records", run: revisits},
	{name: "read-only", words: "export and check on a read-only medium", run: readOnly},
	{name: "moved-archive", words: "archive files moved to other storage", run: movedArchive},
	{name: "left-out", words: "URLs left out by an earlier run", run: leftOut},
}

func exportRedirects(t *trial) error {
	s, err := t.pages(map[string]string{"/": page("front", "/old"), "/old": redirect("/new"), "/new": page("new")})
	if err != nil {
		return err
	}
	if _, err := t.crawl("p", s.url("h1.web", "/")); err != nil {
		return err
	}
	from, to := s.url("h1.web", "/old"), s.url("h1.web", "/new")
	got, err := t.urls("p")
	if err != nil {
		return err
	}
	if u := got[from]; u == nil {
		t.Blame("export urls has no %s", from)
	} else {
		t.want("urls: outcome and target", u.Outcome+" "+u.Redirect, "redirect "+to)
	}
	text, err := t.export("p", "links")
	if err != nil {
		return err
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return err
	}
	t.want("links: edge in CSV", slices.ContainsFunc(rows, func(row []string) bool { return slices.Equal(row, []string{from, to, "redirect"}) }), true)
	if text, err = t.export("p", "links", "--json"); err != nil {
		return err
	}
	found := false
	for line := range strings.Lines(text) {
		var edge map[string]any
		if err := json.Unmarshal([]byte(line), &edge); err != nil {
			return err
		}
		found = found || edge["from"] == from && edge["to"] == to && edge["kind"] == "redirect"
	}
	t.want("edge in JSON", found, true)
	return nil
}

func exportURLs(t *trial) error {
	s, err := t.serve(func(r *http.Request, _ string) string {
		switch r.RequestURI {
		case "/":
			return redirect("/page")
		case "/page":
			return response("200 OK", html("p", "/broken"), "Content-Type: text/html; charset=utf-8", `ETag: "v1"`, "Last-Modified: Sat, 28 Nov 2026 08:00:00 GMT")
		case "/broken":
			return "SMTP 220\r\n\r\n"
		}
		return ""
	})
	if err != nil {
		return err
	}
	if _, err := t.crawl("p", "--retries", "0", s.url("h1.web", "/")); err != nil {
		return err
	}
	text, err := t.export("p", "urls")
	if err != nil {
		return err
	}
	lines := make(map[string]map[string]any)
	for line := range strings.Lines(text) {
		var u map[string]any
		if err := json.Unmarshal([]byte(line), &u); err != nil {
			return err
		}
		lines[fmt.Sprint(u["url"])] = u
	}
	u := lines[s.url("h1.web", "/page")]
	t.want("mime", u["mime"], "text/html")
	t.want("hops", u["hops"], 1)
	t.want("etag", u["etag"], `"v1"`)
	t.want("last_modified", u["last_modified"], "Sat, 28 Nov 2026 08:00:00 GMT")
	_, timed := u["duration_ms"]
	t.want("duration_ms is there", timed, true)
	t.holds(lines[s.url("h1.web", "/broken")]["detail"] != nil, "detail of a failure", lines[s.url("h1.web", "/broken")]["detail"], "words")
	return nil
}

func wacz(t *trial) error {
	s, err := t.pages(map[string]string{"/": page("Front", "/next"), "/next": page("Next")})
	if err != nil {
		return err
	}
	if _, err := t.crawl("p", s.url("h1.web", "/")); err != nil {
		return err
	}
	name := t.at("p.wacz")
	if _, err := t.export("p", "wacz", "-o", name); err != nil {
		return err
	}
	z, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer func() { _ = z.Close() }()
	files := make(map[string]string)
	oldest := 9999
	for _, f := range z.File {
		oldest = min(oldest, f.Modified.Year())
		r, err := f.Open()
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r)
		r.Close()
		if err != nil {
			return err
		}
		files[f.Name] = string(text)
	}
	_, plain := files["indexes/index.cdx"]
	_, gz := files["indexes/index.cdx.gz"]
	t.want("index that pywb takes", plain || gz, true)
	t.holds(oldest >= 2020, "oldest year in the ZIP", oldest, "this year")
	var titles []string
	for in := bufio.NewScanner(strings.NewReader(files["pages/pages.jsonl"])); in.Scan(); {
		var p struct{ URL, Title string }
		if err := json.Unmarshal(in.Bytes(), &p); err != nil {
			return err
		}
		if p.URL != "" {
			titles = append(titles, p.Title)
		}
	}
	slices.Sort(titles)
	t.want("titles", titles, "[Front Next]")
	var pack map[string]any
	if err := json.Unmarshal([]byte(files["datapackage.json"]), &pack); err != nil {
		return err
	}
	main := pack["mainPageUrl"]
	if main == nil {
		main = pack["mainPageURL"]
	}
	t.want("main page", main, s.url("h1.web", "/"))
	return nil
}

func revisits(t *trial) error {
	same := response("200 OK", html("same"), "Content-Type: text/html")
	s, err := t.pages(map[string]string{"/": page("front", "/a", "/b", "/c"), "/a": same, "/b": same, "/c": same})
	if err != nil {
		return err
	}
	if _, err := t.crawl("p", s.url("h1.web", "/")); err != nil {
		return err
	}
	all, err := t.archive("p")
	if err != nil {
		return err
	}
	count, right := 0, 0
	for _, r := range all {
		if r.Get("WARC-Type") == "revisit" {
			count++
			if r.Get("WARC-Truncated") == "length" {
				right++
			}
		}
	}
	t.want("revisit records", count, 2)
	t.want("with WARC-Truncated: length", right, 2)
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
