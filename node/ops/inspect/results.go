package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/rpc"
)

const (
	// listAtOnce is the maximum of concurrent requests for file lists.
	listAtOnce = 8
	// filesTimeout is the timeout of one request for archive files.
	filesTimeout = 30 * time.Second
)

// Archives implements control.Backend.
func (v *View) Archives(ctx context.Context, whole bool) (*control.Archives, error) {
	if err := v.deps.Life.Ready(ctx); err != nil {
		return nil, err
	}
	self := v.deps.Self.String()
	found := &control.Archives{Peers: []control.ArchivePeer{{Peer: self, Role: v.baseStatus().Role}}, Missing: []control.Missing{}}
	if whole {
		r, err := v.walker.walk(ctx)
		if err != nil {
			return nil, err
		}
		found.Peers = found.Peers[:0]
		if r.Error != "" && !r.Closed {
			found.Missing = append(found.Missing, control.Missing{Peer: "of the ring", Error: r.Error})
		}
		for i := range r.Members {
			found.Peers = append(found.Peers, control.ArchivePeer{Peer: r.Members[i].Peer, Role: RoleRing})
		}
		for _, w := range workersOf(r.Members) {
			found.Peers = append(found.Peers, control.ArchivePeer{Peer: w.Peer, Role: RoleWorker})
		}
	}
	errs := make([]error, len(found.Peers))
	var group errgroup.Group
	group.SetLimit(listAtOnce)
	for i := range found.Peers {
		group.Go(func() error {
			found.Peers[i].Files, errs[i] = filesOf(ctx, v.lender(found.Peers[i].Peer))
			return nil
		})
	}
	_ = group.Wait() // errors are collected per peer
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	answered := found.Peers[:0]
	for i, p := range found.Peers {
		if errs[i] != nil {
			found.Missing = append(found.Missing, control.Missing{Peer: p.Peer, Error: errs[i].Error()})
			continue
		}
		answered = append(answered, p)
	}
	found.Peers = answered
	return found, nil
}

// lender returns a client of the files service of a peer, or of this one.
func (v *View) lender(id string) func(ctx context.Context, req []byte) ([]byte, error) {
	return func(ctx context.Context, req []byte) ([]byte, error) {
		of, err := peer.Decode(id)
		if err != nil {
			return nil, control.Usage(fmt.Sprintf("peer %.80q: %v", id, err))
		}
		if of == v.deps.Self {
			return filesAt(&v.deps.Archive).handle(ctx, of, req)
		}
		ctx, cancel := context.WithTimeout(ctx, filesTimeout)
		defer cancel()
		return v.deps.Ring.Net.Call(ctx, of, ServiceFiles, req)
	}
}

func filesAt(a *ArchiveDeps) archiveFiles {
	return archiveFiles{dir: a.Dir, flush: a.Flush}
}

// FilesService provides archive files to other peers.
func (v *View) FilesService() rpc.Service {
	return rpc.Raw("Files", rpc.Anyone("the names of files; requests of untrusted peers are served one at a time"), v.HandleFiles)
}

// HandleFiles serves a request for archive files.
func (v *View) HandleFiles(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
	return v.serve(ctx, from, func() ([]byte, error) { return filesAt(&v.deps.Archive).handle(ctx, from, raw) })
}

// ReadArchive implements control.Backend.
func (v *View) ReadArchive(ctx context.Context, of, name string, offset int64, w io.Writer) error {
	return copyFile(ctx, v.lender(of), name, offset, w)
}

// URLs implements control.Backend.
func (v *View) URLs(ctx context.Context, of, after string) (*control.URLPage, error) {
	return askListed[control.URLPage](ctx, v, of, askURLs, after)
}

// askListed requests a part of a list from a peer, or from this one if of is empty.
func askListed[T any](ctx context.Context, v *View, of, question, after string) (*T, error) {
	id := v.deps.Self
	if of != "" {
		var err error
		if id, err = peer.Decode(of); err != nil {
			return nil, control.Usage(fmt.Sprintf("peer %.80q: %v", of, err))
		}
	}
	return askPeer[T](ctx, v, id, question+" "+after)
}

// urlsHere lists finished URLs after a cursor in hex.
func (v *View) urlsHere(ctx context.Context, after string) (*control.URLPage, error) {
	page := &control.URLPage{URLs: []control.URLLine{}}
	var err error
	page.After, err = v.finals(ctx, after, urlLines(v.deps.Hosts.Records, page))
	return page, err
}

// finals calls fn for finished URLs after a cursor in hex, and returns the next cursor.
func (v *View) finals(ctx context.Context, after string, fn func(id job.ID, f *owner.Final)) (next string, err error) {
	cursor, err := parseCursor(after)
	if err != nil {
		return "", rpc.Refuse("urls: %v", err)
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	to, err := ondisk.URLsIn(v.deps.Hosts.Records, cursor, pageSize, fn) // not in the owner's loop, which has other work
	return fmt.Sprintf("%x", []byte(to)), err
}

func parseCursor(text string) (owner.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	return parseHex(text, len(text)/2)
}

// Size limits of JSON responses of other peers. A list element of three bytes needs a few hundred
// bytes of memory, so elements are counted before decoding.
const (
	// maxAnswerElements limits the elements of all lists; the longest list is one of files.
	maxAnswerElements = 2 * maxFileList
	// maxAnswerValues limits all values; a report has about forty per job.
	maxAnswerValues = 100_000
	// maxAnswerDepth limits the nesting; ours is 5.
	maxAnswerDepth = 16
)

// unpack decodes a response of another peer.
func unpack(raw []byte, v any) error {
	if err := countAnswer(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// countAnswer checks the size limits of a response without allocation. It does not validate the
// JSON.
func countAnswer(raw []byte) error {
	var isList [maxAnswerDepth + 1]bool
	depth, elements, values, quoted := 0, 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{' || c == ',':
			if c != ',' {
				if depth++; depth > maxAnswerDepth {
					return fmt.Errorf("response: nested deeper than %d", maxAnswerDepth)
				}
				isList[depth] = c == '['
			}
			values++
			if isList[depth] {
				elements++
			}
		case c == ']' || c == '}':
			depth = max(depth-1, 0)
		}
		if elements > maxAnswerElements || values > maxAnswerValues {
			return fmt.Errorf("response: more than %d list elements or %d values", maxAnswerElements, maxAnswerValues)
		}
	}
	return nil
}
