package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// page is a page in an archive: the digest of its body, and when it was fetched last.
type page struct {
	digest string
	at     time.Time
}

// readArchive reads every record of all finished files, checks the digests of what has a body, and
// returns the pages with a good status by their URLs.
func readArchive(dir string) (map[string]page, error) {
	pages := make(map[string]page)
	paths, err := filepath.Glob(filepath.Join(dir, "archive", "*.warc*"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, ".open") || strings.HasSuffix(path, ".tmp") {
			return nil, fmt.Errorf("%s is not finished", path)
		}
		if err := readWARC(path, pages); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return pages, nil
}

func readWARC(path string, pages map[string]page) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	switch {
	case strings.HasSuffix(path, ".gz"):
		in, err = gzip.NewReader(bufio.NewReader(f))
	case strings.HasSuffix(path, ".zst"):
		in, err = zstd.NewReader(f, zstd.WithDecoderConcurrency(1)) // holds nothing that needs closing
	}
	if err != nil {
		return err
	}
	r := bufio.NewReader(in)
	for {
		head, err := readHead(r)
		if errors.Is(err, io.EOF) && len(head) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		size, err := strconv.Atoi(head["content-length"])
		if err != nil {
			return err
		}
		block := make([]byte, size+4)
		if _, err := io.ReadFull(r, block); err != nil {
			return err
		}
		if err := take(head, block[:size], pages); err != nil {
			return fmt.Errorf("record %s: %w", head["warc-record-id"], err)
		}
	}
}

func readHead(r *bufio.Reader) (map[string]string, error) {
	head := make(map[string]string)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return head, err
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			return head, nil
		}
		if name, value, ok := strings.Cut(line, ": "); ok {
			head[strings.ToLower(name)] = value
		} else {
			head[""] = line
		}
	}
}

// take checks the digests of a record and notes it if it is a page.
func take(head map[string]string, block []byte, pages map[string]page) error {
	if got := sum(block); got != head["warc-block-digest"] {
		return fmt.Errorf("block digest %s, want %s", got, head["warc-block-digest"])
	}
	kind := head["warc-type"]
	if kind != "response" && kind != "revisit" {
		return nil
	}
	_, body, _ := bytes.Cut(block, []byte("\r\n\r\n"))
	if got := sum(body); kind == "response" && got != head["warc-payload-digest"] {
		return fmt.Errorf("payload digest %s, want %s", got, head["warc-payload-digest"])
	}
	if status := strings.Fields(string(block[:min(len(block), 40)])); len(status) < 2 || status[1][0] != '2' {
		return nil
	}
	at, err := time.Parse(time.RFC3339, head["warc-date"])
	if err != nil {
		return err
	}
	url := strings.Trim(head["warc-target-uri"], "<>")
	if old, ok := pages[url]; !ok || at.After(old.at) {
		pages[url] = page{head["warc-payload-digest"], at}
	}
	return nil
}

func sum(raw []byte) string {
	digest := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(digest[:])
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
