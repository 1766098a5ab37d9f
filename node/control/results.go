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

// Results provides the results of a crawl in parts, so that an interrupted export can continue.
type Results interface {
	// Archives lists the archive files of this peer, or of all members and their workers. Peers that
	// do not respond are in Missing.
	Archives(ctx context.Context, ring bool) (*Archives, error)
	// ReadArchive writes a peer's archive file, or its index, from offset on.
	ReadArchive(ctx context.Context, peer, name string, offset int64, w io.Writer) error
	// URLs returns a page of finished URLs of the hosts that a peer owns, after a cursor; empty is the
	// beginning.
	URLs(ctx context.Context, peer, after string) (*URLPage, error)
}

// Archives lists the files of an export.
type Archives struct {
	Peers   []ArchivePeer `json:"peers"`   // those that responded
	Missing []Missing     `json:"missing"` // those that did not respond
}

// ArchivePeer is one peer with its archive files.
type ArchivePeer struct {
	Peer string `json:"peer"` // its ID
	// Role is ring or worker; a worker owns no hosts and lists no URLs.
	Role  string        `json:"role"`
	Files []ArchiveFile `json:"files"` // in the order of their names
}

// ArchiveFile is a WARC file. An open file is being written and may end within a record.
type ArchiveFile struct {
	Name  string `json:"name"`           // without directory and without the suffix of an open file
	Bytes int64  `json:"bytes"`          // size when listed
	Open  bool   `json:"open,omitempty"` // being written
}

// Missing is a peer or file that could not be read.
type Missing struct {
	Peer string `json:"peer"` // its ID
	// File is the name of the missing file; empty: all files of the peer.
	File string `json:"file,omitempty"`
	// Records is the number of records that the peer holds; 0 if unknown.
	Records int64  `json:"records,omitempty"`
	Error   string `json:"error"` // the reason, for people
}

// String returns one line with what is missing and why.
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

// URLPage is a part of a peer's finished URLs; After is empty at the end.
type URLPage struct {
	URLs  []URLLine `json:"urls"`            // at most 200
	After string    `json:"after,omitempty"` // cursor of the next page, in hex
}

// trailerError is the trailer field for an error in the middle of a file.
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
	cw := &CountingWriter{W: w}
	err = s.backend.ReadArchive(r.Context(), r.PathValue("peer"), r.PathValue("name"), offset, cw)
	switch {
	case err == nil:
	case cw.N == 0:
		w.Header().Del("Trailer")
		fail(err)
	default:
		w.Header().Set(trailerError, strings.ReplaceAll(err.Error(), "\n", " "))
	}
}

// CountingWriter counts written bytes.
type CountingWriter struct {
	W io.Writer
	N int64
}

func (c *CountingWriter) Write(p []byte) (int, error) {
	n, err := c.W.Write(p)
	c.N += int64(n)
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
