package warc_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/apoidea/apoidea/storage/warc"
)

// An exchange is encoded, appended, and surely there once Sync has returned. Then it is read again,
// with its digests checked.
func Example() {
	dir, err := os.MkdirTemp("", "archive")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	name, err := write(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := read(filepath.Join(dir, name)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// warcinfo
	// response http://example.org/
	// request http://example.org/
	// metadata http://example.org/
}

func write(dir string) (name string, err error) {
	w, err := warc.Open(dir, warc.Config{Peer: "peer1", Software: "example"})
	if err != nil {
		return "", err
	}
	body := []byte("<p>Hello, <a href=/bees>bees</a>\n")
	members, err := warc.NewEncoder(warc.Gzip).Exchange(&warc.Exchange{
		URL: "http://example.org/", Date: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), IP: "192.0.2.7", Protocol: "http/1.1",
		Request:       []byte("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"),
		ResponseHead:  []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"),
		Body:          body,
		PayloadDigest: sha256.Sum256(body),
		Outlinks:      []string{"http://example.org/bees"},
	})
	if err != nil {
		return "", err
	}
	ref, err := w.Append(members)
	if err != nil {
		return "", errors.Join(err, w.Close())
	}
	return ref.File, errors.Join(w.Sync(), w.Close())
}

func read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := warc.NewReader(f, true); ; {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, record); err != nil {
			return err // a digest that is wrong, too
		}
		line := string(record.Type)
		if url := record.Get("WARC-Target-URI"); url != "" {
			line += " " + url
		}
		fmt.Println(line)
	}
}
