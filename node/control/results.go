package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Results is what a crawl left behind, piece by piece, so that an export can go on where it was
// interrupted.
type Results interface {
	// Archives lists the archive files of this peer, or of all members and their workers. Peers
	// that do not answer are in Missing.
	Archives(ctx context.Context, ring bool) (*Archives, error)
	// ReadArchive writes a peer's archive file, or its index, from the offset on.
	ReadArchive(ctx context.Context, peer, name string, offset int64, w io.Writer) error
	// URLs returns what became of some URLs of the hosts that a peer answers for, behind a place in
	// its list; empty is its beginning.
	URLs(ctx context.Context, peer, after string) (*URLPage, error)
	// Holders counts, for a stretch of that list, the records by the peer whose archive has them.
	Holders(ctx context.Context, peer, after string) (*HolderPage, error)
}

// Archives is what an export is made of.
type Archives struct {
	Peers   []ArchivePeer `json:"peers"`   // those that answered
	Missing []Missing     `json:"missing"` // those that did not
}

// ArchivePeer is one peer with its archive files.
type ArchivePeer struct {
	Peer string `json:"peer"` // its ID
	// Role is ring or worker: the latter answers for no hosts, and so for no URLs.
	Role  string        `json:"role"`
	Files []ArchiveFile `json:"files"` // in the order of their names
}

// ArchiveFile is a WARC file. An open one is still being written, and may end within a record.
type ArchiveFile struct {
	Name  string `json:"name"`           // without folder, and without the suffix of an open file
	Bytes int64  `json:"bytes"`          // size when it was listed
	Open  bool   `json:"open,omitempty"` // still being written
}

// Missing is what could not be had.
type Missing struct {
	Peer string `json:"peer"` // its ID
	// File: name of the one file that is missing; empty: all of the peer's.
	File string `json:"file,omitempty"`
	// Records that the peer is known to hold; 0 where that is not known.
	Records int64  `json:"records,omitempty"`
	Error   string `json:"error"` // why, in words
}

// String says in a line what is missing and why.
func (m Missing) String() string {
	text := "peer " + m.Peer
	if m.File != "" {
		text += ", " + m.File
	}
	if m.Records > 0 {
		text += fmt.Sprintf(" (%d records)", m.Records)
	}
	return text + ": " + m.Error
}

// URLPage is a part of a peer's URLs that are done; After is empty at its end.
type URLPage struct {
	URLs  []URLLine `json:"urls"`            // at most 200
	After string    `json:"after,omitempty"` // cursor to ask on with, in hex
}

// HolderPage counts records of a part of a peer's URLs by holder; After is empty at its end.
type HolderPage struct {
	Holders map[string]int64 `json:"holders"`         // records by the ID of the peer that holds them
	After   string           `json:"after,omitempty"` // cursor to ask on with, in hex
}

// trailerError is where a failure is told that came in the middle of a file.
const trailerError = "X-Apoidea-Error"

func (s *Server) archiveFile(w http.ResponseWriter, r *http.Request) {
	fail := func(err error) { s.document(func(*http.Request) (any, error) { return nil, err })(w, r) }
	offset, err := strconv.ParseInt(r.FormValue("offset"), 10, 64)
	if err != nil || offset < 0 {
		fail(Usage(fmt.Sprintf("offset %q: must be a number of bytes", r.FormValue("offset"))))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Trailer", trailerError)
	cw := &countingWriter{w: w}
	err = s.backend.ReadArchive(r.Context(), r.PathValue("peer"), r.PathValue("name"), offset, cw)
	switch {
	case err == nil:
	case cw.n == 0:
		w.Header().Del("Trailer")
		fail(err)
	default:
		w.Header().Set(trailerError, strings.ReplaceAll(err.Error(), "\n", " "))
	}
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// Archives implements Backend.
func (c *Client) Archives(ctx context.Context, ring bool) (*Archives, error) {
	return call[*Archives](ctx, c, http.MethodGet, "/v1/archives", ringFlag(ring), nil)
}

// URLs implements Backend.
func (c *Client) URLs(ctx context.Context, peer, after string) (*URLPage, error) {
	return call[*URLPage](ctx, c, http.MethodGet, "/v1/urls", values("peer", peer, "after", after), nil)
}

// Holders implements Backend.
func (c *Client) Holders(ctx context.Context, peer, after string) (*HolderPage, error) {
	return call[*HolderPage](ctx, c, http.MethodGet, "/v1/holders", values("peer", peer, "after", after), nil)
}

// ReadArchive implements Backend.
func (c *Client) ReadArchive(ctx context.Context, peer, name string, offset int64, w io.Writer) error {
	path := "/v1/archives/" + url.PathEscape(peer) + "/" + url.PathEscape(name)
	res, err := c.do(ctx, http.MethodGet, path, values("offset", strconv.FormatInt(offset, 10)), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		return c.readError(ctx, "archive "+name, err)
	}
	if text := res.Trailer.Get(trailerError); text != "" {
		return &Error{Kind: KindFailed, Text: text}
	}
	return nil
}
