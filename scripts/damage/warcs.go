package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// page is a page in an archive: the digest of its body, and when it was fetched last.
type page struct {
	digest string
	at     time.Time
}

// readArchive returns the pages with a status of 2xx of an archive by their URLs.
func readArchive(dir string) (map[string]page, error) {
	pages := make(map[string]page)
	return pages, harness.ReadArchive(dir, func(r *harness.Record) error {
		if kind := r.Get("WARC-Type"); kind != "response" && kind != "revisit" {
			return nil
		}
		if status := strings.Fields(string(r.Block[:min(len(r.Block), 40)])); len(status) < 2 || status[1][0] != '2' {
			return nil
		}
		at, err := time.Parse(time.RFC3339, r.Get("WARC-Date"))
		if old, ok := pages[r.Target()]; !ok || at.After(old.at) {
			pages[r.Target()] = page{r.Get("WARC-Payload-Digest"), at}
		}
		return err
	})
}

// line is what is used of a line of an index.
type line struct{ URL, Offset, Length, Filename string }

// touched are the URLs of which damage touched the record: bytes in its place differ, or are not
// there.
func touched(base, spoilt string) (map[string]bool, error) {
	list := make(map[string]bool)
	indexes, err := filepath.Glob(filepath.Join(base, "archive", "*.cdxj"))
	if err != nil {
		return nil, err
	}
	for _, index := range indexes {
		raw, err := os.ReadFile(index)
		if err != nil {
			return nil, err
		}
		files := make(map[string][2][]byte)
		for text := range strings.Lines(string(raw)) {
			var l line
			if err := json.Unmarshal([]byte(text[strings.IndexByte(text, '{'):]), &l); err != nil {
				return nil, err
			}
			if _, ok := files[l.Filename]; !ok {
				was, err := os.ReadFile(filepath.Join(base, "archive", l.Filename))
				if err != nil {
					return nil, err
				}
				is, _ := os.ReadFile(filepath.Join(spoilt, "archive", l.Filename)) // gone: all of it
				files[l.Filename] = [2][]byte{was, is}
			}
			offset, _ := strconv.Atoi(l.Offset)
			length, _ := strconv.Atoi(l.Length)
			was, is := files[l.Filename][0], files[l.Filename][1]
			if len(is) < offset+length || !bytes.Equal(was[offset:offset+length], is[offset:offset+length]) {
				list[l.URL] = true
			}
		}
	}
	return list, nil
}
