package node

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/optout"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/worker"
)

const (
	// optOutLook is how often the file of opt-outs is looked at, optOutRefresh how often their URL is asked.
	optOutLook    = 2 * time.Second
	optOutRefresh = 10 * time.Minute
	// optOutCopy is the copy of what the URL said last, in the data directory, and optOutCopyMeta what belongs to it.
	optOutCopy     = "optout-url.txt"
	optOutCopyMeta = "optout-url.json"
)

// optOutLists are this peer's own lists of what is not to be crawled: from a file, and from a URL. They hold wherever it is a host's owner or its worker.
type optOutLists struct {
	file, url string
	dir       string // for the copy
	get       func(ctx context.Context, req *fetch.Request) (*fetch.Response, error)
	changed   func()
	log       *slog.Logger

	fromFile, fromURL atomic.Pointer[optout.List]
	seen              fileState // of the file as last read
	copied            copyMeta
}

var (
	_ owner.OptOuts  = (*optOutLists)(nil)
	_ worker.OptOuts = (*optOutLists)(nil)
)

// fileState tells whether a file is another than before.
type fileState struct {
	size int64
	at   time.Time
}

// copyMeta is what is kept beside the copy of a URL's list.
type copyMeta struct {
	URL          string    `json:"url"`
	ETag         string    `json:"etag,omitempty"`
	LastModified string    `json:"last_modified,omitempty"`
	Checked      time.Time `json:"checked"`
	SHA256       string    `json:"sha256"`
}

// newOptOutLists reads the file, which must be in order, and the copy of what the URL said last, if there is one.
func newOptOutLists(c *Config, log *slog.Logger) (*optOutLists, error) {
	l := &optOutLists{file: c.OptOutFile, url: c.OptOutURL, dir: c.DataDir, changed: func() {}, log: log}
	if l.file != "" {
		list, state, err := readList(l.file)
		if err != nil {
			return nil, fmt.Errorf("optout-file %s: %w", l.file, err)
		}
		l.fromFile.Store(list)
		l.seen = state
	}
	if l.url != "" {
		l.readCopy()
	}
	return l, nil
}

// readList reads a file of at most optout.MaxList bytes. The list may come with an error that names lines which are no rules.
func readList(path string) (list *optout.List, state fileState, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, state, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, state, err
	}
	state = fileState{info.Size(), info.ModTime()}
	text, err := io.ReadAll(io.LimitReader(f, optout.MaxList+1))
	if err != nil {
		return nil, state, err
	}
	list, err = optout.Parse(text)
	return list, state, err
}

// readCopy takes up the list of an earlier run. A copy that is not what was written is as none.
func (l *optOutLists) readCopy() {
	raw, err := os.ReadFile(filepath.Join(l.dir, optOutCopyMeta))
	if err != nil {
		return
	}
	var meta copyMeta
	if json.Unmarshal(raw, &meta) != nil || meta.URL != l.url {
		return
	}
	text, err := os.ReadFile(filepath.Join(l.dir, optOutCopy))
	if err != nil || fmt.Sprintf("%x", sha256.Sum256(text)) != meta.SHA256 {
		l.log.Warn("copy of the opt-out list is damaged, it is fetched anew", "url", l.url)
		return
	}
	if list, _ := optout.Parse(text); list != nil {
		l.fromURL.Store(list)
		l.copied = meta
	}
}

// run keeps the lists up to date until ctx ends.
func (l *optOutLists) run(ctx context.Context) error {
	next := time.Now()
	if l.fromURL.Load() != nil {
		next = l.copied.Checked.Add(optOutRefresh)
	}
	tick := time.NewTicker(optOutLook)
	defer tick.Stop()
	for {
		if l.file != "" {
			l.look()
		}
		if now := time.Now(); l.url != "" && !now.Before(next) {
			next = now.Add(optOutRefresh)
			if err := l.refresh(ctx); err != nil && ctx.Err() == nil {
				l.log.Warn("opt-out list not refreshed, the last one holds", "url", l.url, "err", err)
				if l.fromURL.Load() == nil {
					next = now.Add(optOutRefresh / 10) // there is none yet
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look reads the file again if it has changed. What is not in order in it is told, and the rest holds; a file that is gone, or is no list at all, leaves
// the last one in force.
func (l *optOutLists) look() {
	info, err := os.Stat(l.file)
	if err == nil && (fileState{info.Size(), info.ModTime()}) == l.seen {
		return
	}
	if err != nil {
		if l.seen != (fileState{}) {
			l.seen = fileState{}
			l.log.Warn("opt-out file cannot be read, the last list holds", "file", l.file, "err", err)
		}
		return
	}
	list, state, err := readList(l.file)
	l.seen = state
	if err != nil {
		l.log.Warn("opt-out file is not in order", "file", l.file, "err", err)
	}
	if list == nil {
		return
	}
	l.fromFile.Store(list)
	l.changed()
}

// refresh asks the URL whether its list is another.
func (l *optOutLists) refresh(ctx context.Context) error {
	req := &fetch.Request{URL: l.url, Accept: "text/plain,*/*;q=0.1", MaxBytes: optout.MaxList, Header: http.Header{}}
	if l.fromURL.Load() != nil {
		if l.copied.ETag != "" {
			req.Header.Set("If-None-Match", l.copied.ETag)
		}
		if l.copied.LastModified != "" {
			req.Header.Set("If-Modified-Since", l.copied.LastModified)
		}
	}
	resp, err := l.get(ctx, req)
	if err != nil {
		return err
	}
	defer resp.Release()
	switch resp.Status {
	case http.StatusNotModified:
		l.copied.Checked = time.Now()
		return l.keep(nil)
	case http.StatusOK:
	default:
		return fmt.Errorf("status %d", resp.Status)
	}
	list, err := optout.Parse(resp.Body)
	if list == nil {
		return err
	}
	if err != nil {
		l.log.Warn("opt-out list is not in order", "url", l.url, "err", err)
	}
	l.copied = copyMeta{
		URL: l.url, ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified"), Checked: time.Now(),
		SHA256: fmt.Sprintf("%x", sha256.Sum256(resp.Body)),
	}
	l.fromURL.Store(list)
	l.changed()
	return l.keep(resp.Body)
}

// keep writes the copy, its text first if that is given: one that does not fit what belongs to it counts as none.
func (l *optOutLists) keep(text []byte) error {
	if text != nil {
		if err := replaceFile(filepath.Join(l.dir, optOutCopy), text); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(&l.copied)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(l.dir, optOutCopyMeta), raw)
}

// replaceFile writes a file as a whole, so that a crash leaves the old one or the new one.
func replaceFile(path string, data []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sources are the lists in force, and where each is from.
func (l *optOutLists) sources() [2]listSource {
	return [2]listSource{{"optout-file", l.file, l.fromFile.Load()}, {"optout-url", l.url, l.fromURL.Load()}}
}

type listSource struct {
	flag, where string
	list        *optout.List
}

func (s *listSource) why(r optout.Rule, ok bool) string {
	if !ok {
		return ""
	}
	return fmt.Sprintf("opted out by %q in the list of --%s", r, s.flag)
}

// Host implements owner.OptOuts.
func (l *optOutLists) Host(host string) string {
	for _, s := range l.sources() {
		if why := s.why(s.list.Host(host)); why != "" {
			return why
		}
	}
	return ""
}

// URL implements owner.OptOuts and worker.OptOuts.
func (l *optOutLists) URL(url string) string {
	for _, s := range l.sources() {
		if why := s.why(s.list.URL(url)); why != "" {
			return why
		}
	}
	return ""
}

// Refused says whether an address has opted out.
func (l *optOutLists) Refused(addr netip.Addr) bool {
	for _, s := range l.sources() {
		if _, ok := s.list.Addr(addr); ok {
			return true
		}
	}
	return false
}

// subjects are the hosts and domains on the lists, for the ring.
func (l *optOutLists) subjects() (list []optout.Subject) {
	for _, s := range l.sources() {
		for _, r := range s.list.Rules() {
			if r.Kind == optout.KindHost || r.Kind == optout.KindDomain {
				list = append(list, optout.Subject{Kind: r.Kind, Name: r.Value})
			}
		}
	}
	return list
}
