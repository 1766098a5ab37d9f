package politeness

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
	// optOutLook is the interval of checks of the opt-out file, optOutRefresh that of requests for the
	// URL.
	optOutLook    = 2 * time.Second
	optOutRefresh = 10 * time.Minute
	// optOutCopy is the copy of the URL's last list in the data directory, and optOutCopyMeta its
	// metadata.
	optOutCopy     = "optout-url.txt"
	optOutCopyMeta = "optout-url.json"
)

// Get fetches a URL.
type Get = func(ctx context.Context, req *fetch.Request) (*fetch.Response, error)

// ListsDeps are the sources of the lists.
type ListsDeps struct {
	File, URL string       // empty: none
	Dir       string       // for a copy of the URL's list
	Get       Get          // fetches the URL
	Log       *slog.Logger // reports invalid lines, and failed requests
}

// Lists are this peer's own opt-out lists, from a file and from a URL. A peer applies them as owner
// and as worker of a host.
type Lists struct {
	deps    ListsDeps
	changed func() // called when a list has changed

	fromFile, fromURL atomic.Pointer[optout.List]
	seen              fileState // of the file as last read
	copied            copyMeta
}

var (
	_ owner.OptOuts  = (*Lists)(nil)
	_ worker.OptOuts = (*Lists)(nil)
)

// fileState detects changes of a file.
type fileState struct {
	size int64
	at   time.Time
}

// copyMeta is the metadata of the copy of a URL's list.
type copyMeta struct {
	URL          string    `json:"url"`
	ETag         string    `json:"etag,omitempty"`
	LastModified string    `json:"last_modified,omitempty"`
	Checked      time.Time `json:"checked"`
	SHA256       string    `json:"sha256"`
}

// NewLists reads the file, which must be valid, and the copy of the URL's last list, if there is
// one.
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

// readList reads a file of at most optout.MaxList bytes. The list may come with an error that lists
// invalid lines.
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

// readCopy loads the copy of an earlier run. A corrupt copy is ignored.
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
		l.deps.Log.Warn("cached opt-out list is corrupt, fetching it again", "url", l.deps.URL)
		return
	}
	if list, _ := optout.Parse(text); list != nil {
		l.fromURL.Store(list)
		l.copied = meta
	}
}

// run refreshes the lists until ctx ends.
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
				l.deps.Log.Warn("refreshing the opt-out list failed, using the last one", "url", l.deps.URL, "err", err)
				if l.fromURL.Load() == nil {
					next = now.Add(optOutRefresh / 10) // no list yet
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

// look reads the file again if it has changed. Invalid lines are logged, and the others apply; if
// the file is gone, or is not a list, the last list stays in force.
func (l *Lists) look() {
	info, err := os.Stat(l.deps.File)
	if err == nil && (fileState{info.Size(), info.ModTime()}) == l.seen {
		return
	}
	if err != nil {
		if l.seen != (fileState{}) {
			l.seen = fileState{}
			l.deps.Log.Warn("reading the opt-out file failed, using the last list", "file", l.deps.File, "err", err)
		}
		return
	}
	list, state, err := readList(l.deps.File)
	l.seen = state
	if err != nil {
		l.deps.Log.Warn("invalid lines in the opt-out file", "file", l.deps.File, "err", err)
	}
	if list == nil {
		return
	}
	l.fromFile.Store(list)
	l.changed()
}

// refresh requests the URL, and replaces its list if it has changed.
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
		l.deps.Log.Warn("invalid lines in the opt-out list", "url", l.deps.URL, "err", err)
	}
	l.copied = copyMeta{
		URL: l.deps.URL, ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified"), Checked: time.Now(),
		SHA256: fmt.Sprintf("%x", sha256.Sum256(resp.Body)),
	}
	l.fromURL.Store(list)
	l.changed()
	return l.keep(resp.Body)
}

// keep writes the copy, its text first if that is given: a text that does not match its metadata is
// ignored.
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

// Sources returns the lists in force: that of the file, and that of the URL.
func (l *Lists) Sources() [2]Source {
	return [2]Source{{"optout-file", l.deps.File, l.fromFile.Load()}, {"optout-url", l.deps.URL, l.fromURL.Load()}}
}

// Source is a list, nil if there is none, with its flag and location.
type Source struct {
	Flag, Where string       // Where is a file or a URL, empty: not set
	List        *optout.List // its rules
}

func (s *Source) why(r optout.Rule, ok bool) string {
	if !ok {
		return ""
	}
	return fmt.Sprintf("opted out by %q in --%s", r, s.Flag)
}

// Host implements owner.OptOuts.
func (l *Lists) Host(host string) string { return l.why(host, (*optout.List).Host) }

// URL implements owner.OptOuts and worker.OptOuts.
func (l *Lists) URL(url string) string { return l.why(url, (*optout.List).URL) }

func (l *Lists) why(name string, match func(*optout.List, string) (optout.Rule, bool)) string {
	for _, s := range l.Sources() {
		if why := s.why(match(s.List, name)); why != "" {
			return why
		}
	}
	return ""
}

// Refused reports whether an address has opted out.
func (l *Lists) Refused(addr netip.Addr) bool {
	for _, s := range l.Sources() {
		if _, ok := s.List.Addr(addr); ok {
			return true
		}
	}
	return false
}

// subjects returns the hosts and domains on the lists, for the ring.
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
