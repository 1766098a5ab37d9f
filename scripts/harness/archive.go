package harness

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Record is one record of a WARC file.
type Record struct {
	textproto.MIMEHeader
	Block []byte
}

// Target is the URL of a record.
func (r *Record) Target() string { return strings.Trim(r.Get("WARC-Target-URI"), "<>") }

// ReadArchive reads all records of the finished WARC files of a data directory, without the
// product's reader, and checks their digests. A file that is not finished is an error.
func ReadArchive(dir string, each func(r *Record) error) error {
	paths, err := filepath.Glob(filepath.Join(dir, "archive", "*.warc*"))
	for _, path := range paths {
		if strings.HasSuffix(path, ".open") || strings.HasSuffix(path, ".tmp") {
			return fmt.Errorf("%s is not finished", path)
		}
		if err := readWARC(path, each); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return err
}

func readWARC(path string, each func(r *Record) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var in io.Reader = f
	switch filepath.Ext(path) {
	case ".gz":
		in, err = gzip.NewReader(bufio.NewReader(f))
	case ".zst":
		in, err = zstd.NewReader(f, zstd.WithDecoderConcurrency(1)) // holds nothing that needs closing
	}
	if err != nil {
		return err
	}
	for buffered := bufio.NewReader(in); ; {
		r, err := readRecord(buffered)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = r.verify()
		}
		if err == nil {
			err = each(r)
		}
		if err != nil {
			return err
		}
	}
}

// readRecord returns io.EOF at the end of a file, and no other error that is one.
func readRecord(in *bufio.Reader) (*Record, error) {
	version, err := in.ReadString('\n')
	if errors.Is(err, io.EOF) && version == "" {
		return nil, io.EOF
	}
	if err != nil || !strings.HasPrefix(version, "WARC/1.1") {
		return nil, fmt.Errorf("a record begins with %.20q", version)
	}
	head, err := textproto.NewReader(in).ReadMIMEHeader()
	if err != nil {
		return nil, fmt.Errorf("head of a record: %v", err) //nolint:errorlint // not the end of the file
	}
	size, err := strconv.Atoi(head.Get("Content-Length"))
	if err != nil {
		return nil, err
	}
	block := make([]byte, size+len("\r\n\r\n"))
	if n, err := io.ReadFull(in, block); err != nil {
		return nil, fmt.Errorf("%d bytes of a block of %d", n, size)
	}
	return &Record{head, block[:size]}, nil
}

// verify checks the digest of the block, and that of the payload of a response.
func (r *Record) verify() error {
	_, body, _ := bytes.Cut(r.Block, []byte("\r\n\r\n"))
	for field, data := range map[string][]byte{"WARC-Block-Digest": r.Block, "WARC-Payload-Digest": body} {
		if field == "WARC-Payload-Digest" && r.Get("WARC-Type") != "response" {
			continue
		}
		if digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data)); digest != r.Get(field) {
			return fmt.Errorf("record %s: %s is %s, expected %s", r.Get("WARC-Record-ID"), field, r.Get(field), digest)
		}
	}
	return nil
}
