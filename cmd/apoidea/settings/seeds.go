package settings

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// SeedList is a validated list of seeds: one URL a line; what follows a tab is left out. Empty
// lines and comments are left out; a comment begins with # at the start of a line or after a blank,
// so that a
// # within a URL still begins its fragment. Memory does not grow with the list. Close it.
type SeedList struct {
	name string
	file *os.File
	// Total counts its URLs, repetitions included. Digest is the SHA-256 of the canonical URLs in
	// order, each with a newline.
	Total  uint64
	Digest []byte
	// First are all URLs if they fit into a job's spec, else the first of each host.
	First []string
	// Whole reports that First has all of them; Hosts that it has one of each host.
	Whole, Hosts bool
}

// worstLines is the maximum number of reported errors.
const worstLines = 10

// OpenSeeds reads a list from a file, or from in if the name is "-", and validates each canonical
// URL.
func OpenSeeds(name string, in io.Reader, check func(url string) error) (*SeedList, error) {
	l := &SeedList{name: name}
	if err := l.open(in); err != nil {
		return nil, fmt.Errorf("seeds %s: %w", name, err)
	}
	if err := l.survey(check); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// open opens the list; input that cannot be read twice is copied to a temporary file.
func (l *SeedList) open(in io.Reader) error {
	if l.name != "-" {
		f, err := os.Open(l.name)
		if err != nil {
			return errors.Unwrap(err)
		}
		info, err := f.Stat()
		if err == nil && info.IsDir() {
			err = errors.New("is a directory, expected a file")
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		if info.Mode().IsRegular() {
			l.file = f
			return nil
		}
		defer f.Close()
		in = f
	}
	f, err := os.CreateTemp("", "apoidea-seeds-*")
	if err != nil {
		return err
	}
	l.file = f
	_ = os.Remove(f.Name()) // it lasts until it is closed
	if _, err = io.Copy(f, in); err != nil {
		return errors.Join(err, l.Close())
	}
	return nil
}

// Close closes the file.
func (l *SeedList) Close() error { return l.file.Close() }

// survey reads the list a first time.
func (l *SeedList) survey(check func(url string) error) error {
	var wrong []string
	bad, size, headSize := 0, 0, 0
	digest := sha256.New()
	hosts := make(map[string]struct{})
	var heads []string
	l.Whole, l.Hosts = true, true
	err := l.read(func(line int, text string) error {
		url, err := link.Canonical(link.WithScheme(text))
		if err == nil {
			err = check(url)
		}
		if err != nil {
			if bad++; bad <= worstLines {
				wrong = append(wrong, fmt.Sprintf("line %d: %.200q: %v", line, text, err))
			}
			return nil
		}
		l.Total++
		add(digest, url)
		if l.Whole {
			size += len(url)
			if l.Whole = size <= wire.MaxSeedBytes/2 && len(l.First) < wire.MaxSeeds/2; l.Whole {
				l.First = append(l.First, url)
			}
		}
		if _, met := hosts[link.Host(url)]; l.Hosts && !met {
			headSize += len(url)
			if l.Hosts = headSize <= wire.MaxSeedBytes/2 && len(heads) < wire.MaxSeeds/2; l.Hosts {
				hosts[strings.Clone(link.Host(url))] = struct{}{}
				heads = append(heads, url)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("seeds %s: %w", l.name, err)
	}
	if bad > worstLines {
		wrong = append(wrong, fmt.Sprintf("and %d more", bad-worstLines))
	}
	if bad > 0 {
		return fmt.Errorf("seeds %s:\n  %s", l.name, strings.Join(wrong, "\n  "))
	}
	if l.Total == 0 {
		return fmt.Errorf("seeds %s: contains no URL", l.name)
	}
	if l.Digest = digest.Sum(nil); !l.Whole {
		l.First = heads
	}
	return nil
}

func add(h hash.Hash, url string) {
	h.Write([]byte(url))
	h.Write([]byte{'\n'})
}

// Each calls fn for all URLs, canonical and in order, in batches of at most atOnce.
func (l *SeedList) Each(ctx context.Context, atOnce int, fn func(urls []string) error) error {
	digest := sha256.New()
	var part []string
	err := l.read(func(_ int, text string) error {
		url, err := link.Canonical(link.WithScheme(text))
		if err != nil {
			return err
		}
		add(digest, url)
		if part = append(part, url); len(part) < atOnce {
			return nil
		}
		err = errors.Join(fn(part), ctx.Err())
		part = nil
		return err
	})
	if err == nil && len(part) > 0 {
		err = fn(part)
	}
	if err == nil && !bytes.Equal(digest.Sum(nil), l.Digest) {
		err = errors.New("changed while being read: repeat the command")
	}
	if err != nil {
		return fmt.Errorf("seeds %s: %w", l.name, err)
	}
	return nil
}

// read calls fn for the lines of the list, from its beginning.
func (l *SeedList) read(fn func(line int, text string) error) error {
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(&lineEnds{r: l.file}, 2*link.MaxURL) // a longer line is cut, and refused for its length
	for line := 1; ; line++ {
		raw, more, err := r.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if line == 1 {
			raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
		}
		text := withoutComment(string(bytes.TrimSpace(raw)))
		text, _, _ = strings.Cut(text, "\t")
		text = link.EscapeInvalid(strings.TrimSpace(text))
		for more && err == nil {
			_, more, err = r.ReadLine()
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if text == "" {
			continue
		}
		if err := fn(line, text); err != nil {
			return err
		}
	}
}

// lineEnds reads r with LF in place of CR, and a blank in place of LF after CR.
type lineEnds struct {
	r  io.Reader
	cr bool // the last byte was a CR
}

func (l *lineEnds) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for i, c := range p[:n] {
		if c == '\r' {
			p[i] = '\n'
		} else if c == '\n' && l.cr {
			p[i] = ' ' // before the next line
		}
		l.cr = c == '\r'
	}
	return n, err
}

// withoutComment returns a trimmed line without its comment and the blanks before that.
func withoutComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return strings.TrimSpace(line[:i])
		}
	}
	return line
}
