package manners

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
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
	"github.com/apoidea/apoidea/node/datadir"
)

const (
	// optOutLook is how often the file of opt-outs is looked at, optOutRefresh how often their URL
	// is asked.
	optOutLook    = 2 * time.Second
	optOutRefresh = 10 * time.Minute
	// optOutCopy is the copy of what the URL said last, in the data directory, and optOutCopyMeta
	// what belongs to it.
	optOutCopy     = "optout-url.txt"
	optOutCopyMeta = "optout-url.json"
)

// Get fetches a URL.
type Get = func(ctx context.Context, req *fetch.Request) (*fetch.Response, error)

// ListsDeps are what lists are read from.
type ListsDeps struct {
	File, URL string       // empty: none
	Dir       string       // for a copy of what the URL said
	Get       Get          // fetches the URL
	Log       *slog.Logger // hears of bad lines, and of a URL that cannot be had
}

// Lists are this peer's own lists of what is not to be crawled: from a file, and from a URL. They
// hold wherever it is a host's owner or its worker.
type Lists struct {
	deps    ListsDeps
	changed func() // told when a list is another

	fromFile, fromURL atomic.Pointer[optout.List]
	seen              fileState // of the file as last read
	copied            copyMeta
}

var (
	_ owner.OptOuts  = (*Lists)(nil)
	_ worker.OptOuts = (*Lists)(nil)
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

// NewLists reads the file, which must be in order, and the copy of what the URL said last, if there
// is one.
func NewLists(d ListsDeps) (*Lists, error) {
	l := &Lists{deps: d, changed: func() {}}
	if l.deps.File != "" {
		list, state, err := readList(l.deps.File)
		if err != nil {
			return nil, fmt.Errorf("optout-file %s: %w", l.deps.File, err)
		}
		l.fromFile.Store(list)
		l.seen = state
	}
	if l.deps.URL != "" {
		l.readCopy()
	}
	return l, nil
}

// readList reads a file of at most optout.MaxList bytes. The list may come with an error that names
// lines which are no rules.
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
func (l *Lists) readCopy() {
	raw, err := os.ReadFile(filepath.Join(l.deps.Dir, optOutCopyMeta))
	if err != nil {
		return
	}
	var meta copyMeta
	if json.Unmarshal(raw, &meta) != nil || meta.URL != l.deps.URL {
		return
	}
	text, err := os.ReadFile(filepath.Join(l.deps.Dir, optOutCopy))
	if err != nil || fmt.Sprintf("%x", sha256.Sum256(text)) != meta.SHA256 {
		l.deps.Log.Warn("copy of the opt-out list is damaged, it is fetched anew", "url", l.deps.URL)
		return
	}
	if list, _ := optout.Parse(text); list != nil {
		l.fromURL.Store(list)
		l.copied = meta
	}
}

// run keeps the lists up to date until ctx ends.
func (l *Lists) run(ctx context.Context) error {
	next := time.Now()
	if l.fromURL.Load() != nil {
		next = l.copied.Checked.Add(optOutRefresh)
	}
	tick := time.NewTicker(optOutLook)
	defer tick.Stop()
	for {
		if l.deps.File != "" {
			l.look()
		}
		if now := time.Now(); l.deps.URL != "" && !now.Before(next) {
			next = now.Add(optOutRefresh)
			if err := l.refresh(ctx); err != nil && ctx.Err() == nil {
				l.deps.Log.Warn("opt-out list not refreshed, the last one holds", "url", l.deps.URL, "err", err)
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

// look reads the file again if it has changed. What is not in order in it is told, and the rest
// holds; a file that is gone, or is no list at all, leaves the last one in force.
func (l *Lists) look() {
	info, err := os.Stat(l.deps.File)
	if err == nil && (fileState{info.Size(), info.ModTime()}) == l.seen {
		return
	}
	if err != nil {
		if l.seen != (fileState{}) {
			l.seen = fileState{}
			l.deps.Log.Warn("opt-out file cannot be read, the last list holds", "file", l.deps.File, "err", err)
		}
		return
	}
	list, state, err := readList(l.deps.File)
	l.seen = state
	if err != nil {
		l.deps.Log.Warn("opt-out file is not in order", "file", l.deps.File, "err", err)
	}
	if list == nil {
		return
	}
	l.fromFile.Store(list)
	l.changed()
}

// refresh asks the URL whether its list is another.
func (l *Lists) refresh(ctx context.Context) error {
	req := &fetch.Request{URL: l.deps.URL, Accept: "text/plain,*/*;q=0.1", MaxBytes: optout.MaxList, Header: http.Header{}}
	if l.fromURL.Load() != nil {
		if l.copied.ETag != "" {
			req.Header.Set("If-None-Match", l.copied.ETag)
		}
		if l.copied.LastModified != "" {
			req.Header.Set("If-Modified-Since", l.copied.LastModified)
		}
	}
	resp, err := l.deps.Get(ctx, req)
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
		l.deps.Log.Warn("opt-out list is not in order", "url", l.deps.URL, "err", err)
	}
	l.copied = copyMeta{
		URL: l.deps.URL, ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified"), Checked: time.Now(),
		SHA256: fmt.Sprintf("%x", sha256.Sum256(resp.Body)),
	}
	l.fromURL.Store(list)
	l.changed()
	return l.keep(resp.Body)
}

// keep writes the copy, its text first if that is given: one that does not fit what belongs to it
// counts as none.
func (l *Lists) keep(text []byte) error {
	if text != nil {
		if err := datadir.Replace(filepath.Join(l.deps.Dir, optOutCopy), text); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(&l.copied)
	if err != nil {
		return err
	}
	return datadir.Replace(filepath.Join(l.deps.Dir, optOutCopyMeta), raw)
}

// Sources are the lists in force: that of the file, and that of the URL.
func (l *Lists) Sources() [2]Source {
	return [2]Source{{"optout-file", l.deps.File, l.fromFile.Load()}, {"optout-url", l.deps.URL, l.fromURL.Load()}}
}

// Source is a list, nil if there is none, with the flag that names it and where it is from.
type Source struct {
	Flag, Where string       // Where is a file or a URL, empty: not set
	List        *optout.List // its rules
}

func (s *Source) why(r optout.Rule, ok bool) string {
	if !ok {
		return ""
	}
	return fmt.Sprintf("opted out by %q in the list of --%s", r, s.Flag)
}

// Host implements owner.OptOuts.
func (l *Lists) Host(host string) string {
	for _, s := range l.Sources() {
		if why := s.why(s.List.Host(host)); why != "" {
			return why
		}
	}
	return ""
}

// URL implements owner.OptOuts and worker.OptOuts.
func (l *Lists) URL(url string) string {
	for _, s := range l.Sources() {
		if why := s.why(s.List.URL(url)); why != "" {
			return why
		}
	}
	return ""
}

// Refused says whether an address has opted out.
func (l *Lists) Refused(addr netip.Addr) bool {
	for _, s := range l.Sources() {
		if _, ok := s.List.Addr(addr); ok {
			return true
		}
	}
	return false
}

// subjects are the hosts and domains on the lists, for the ring.
func (l *Lists) subjects() (list []optout.Subject) {
	for _, s := range l.Sources() {
		for _, r := range s.List.Rules() {
			if r.Kind == optout.KindHost || r.Kind == optout.KindDomain {
				list = append(list, optout.Subject{Kind: r.Kind, Name: r.Value})
			}
		}
	}
	return list
}
