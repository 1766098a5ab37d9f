package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/storage/warc"
)

// serviceFiles lends the archive's files to other peers, for export --ring.
const serviceFiles = "files"

const (
	// maxFileRead bounds one answer of the service.
	maxFileRead = 1 << 20
	// maxFileList bounds the names in one answer.
	maxFileList = 10_000
)

// fileRequest asks for the list of files, or for a part of one. It is JSON, as all that is asked for people and rarely.
type fileRequest struct {
	Name   string `json:"name,omitempty"`
	Offset int64  `json:"offset,omitempty"`
}

// archiveFiles serves the files of a peer's archive: WARC files and their indexes, nothing else.
type archiveFiles struct{ dir string }

// handle answers with the list of names, or with the bytes of a file from the offset on; an empty answer is the file's end.
func (a archiveFiles) handle(_ context.Context, _ peer.ID, raw []byte) ([]byte, error) {
	var req fileRequest
	if len(raw) > 4096 || json.Unmarshal(raw, &req) != nil {
		return nil, refuse("files: not a request")
	}
	if req.Name == "" {
		names, err := a.names()
		if err != nil {
			return nil, err
		}
		return json.Marshal(names)
	}
	if req.Name != filepath.Base(req.Name) || !isArchive(req.Name) || req.Offset < 0 {
		return nil, refuse("files: no such file")
	}
	path := filepath.Join(a.dir, req.Name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.Open(strings.TrimSuffix(path, ".open")) // it was finished since it was listed, and begins with the same bytes
	}
	if err != nil {
		return nil, refuse("files: no such file")
	}
	defer f.Close()
	buf := make([]byte, maxFileRead)
	n, err := f.ReadAt(buf, req.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf[:n], nil
}

func isArchive(name string) bool {
	name = strings.TrimSuffix(name, ".open")
	return strings.HasSuffix(name, ".warc") || strings.HasSuffix(name, ".warc.gz")
}

// names lists the archive's files, the one being written last.
func (a archiveFiles) names() ([]string, error) {
	paths, err := warc.Files(a.dir, true)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(paths))
	for _, p := range paths[:min(len(paths), maxFileList)] {
		names = append(names, filepath.Base(p))
	}
	return names, nil
}

// remoteFile reads a file of another peer part by part.
type remoteFile struct {
	ctx    context.Context //nolint:containedctx // of the one export that reads it; a Reader gets none
	net    caller
	from   peer.ID
	name   string
	offset int64
	rest   []byte
}

// Read implements io.Reader.
func (f *remoteFile) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		part, err := askFiles(f.ctx, f.net, f.from, fileRequest{Name: f.name, Offset: f.offset})
		if err != nil {
			return 0, err
		}
		if len(part) == 0 {
			return 0, io.EOF
		}
		f.rest = part
		f.offset += int64(len(part))
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func askFiles(ctx context.Context, net caller, of peer.ID, req fileRequest) ([]byte, error) {
	raw, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	return net.Call(ctx, of, serviceFiles, raw)
}

// eachArchive calls fn with a reader over every archive file of the peers.
func eachArchive(ctx context.Context, net caller, peers []peer.ID, fn func(name string, r io.Reader) error) error {
	var missing []error
	for _, id := range peers {
		raw, err := askFiles(ctx, net, id, fileRequest{})
		if err != nil {
			missing = append(missing, fmt.Errorf("archive of %s: %w", id, err))
			continue
		}
		var names []string
		if err := json.Unmarshal(raw, &names); err != nil {
			missing = append(missing, fmt.Errorf("archive of %s: %w", id, err))
			continue
		}
		for _, name := range names {
			if err := fn(name, &remoteFile{ctx: ctx, net: net, from: id, name: name}); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				missing = append(missing, fmt.Errorf("archive of %s: %s: %w", id, name, err))
			}
		}
	}
	return errors.Join(missing...)
}

// exportWARC writes all records one after the other. Files are sequences of records, and so is what one makes by joining them; the end of a
// file that is being written is cut at its last whole record.
func exportWARC(ctx context.Context, net caller, peers []peer.ID, w io.Writer) error {
	return eachArchive(ctx, net, peers, func(name string, r io.Reader) error {
		if !strings.HasSuffix(name, ".open") {
			_, err := io.Copy(w, r)
			return err
		}
		return copyWhole(w, r)
	})
}

// copyWhole copies the records of r up to the first that is cut short.
func copyWhole(w io.Writer, r io.Reader) error {
	tmp, err := os.CreateTemp("", "apoidea-export-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = tmp.Close()
		_ = os.Remove(tmp.Name())
	}()
	source := &watched{r: r}
	records := warc.NewReader(io.TeeReader(source, tmp), false)
	var end int64
	for {
		rec, err := records.Next()
		if err != nil {
			break // the end, or the record that is being written
		}
		if rec.Skip() != nil {
			break
		}
		end = rec.Offset + rec.Length
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err = io.CopyN(w, tmp, end); err == nil {
		err = source.err // the file did not end there, its holder did
	}
	return err
}

// watched keeps the error with which a reader broke off, so that it is told from the end of what was read.
type watched struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// exportLinks writes page and outlink of every metadata record, a pair a line with a tab between.
func exportLinks(ctx context.Context, net caller, peers []peer.ID, w io.Writer) error {
	return eachArchive(ctx, net, peers, func(name string, r io.Reader) error {
		records := warc.NewReader(r, false)
		for {
			rec, err := records.Next()
			switch {
			case errors.Is(err, io.EOF), errors.Is(err, warc.ErrTruncated) && strings.HasSuffix(name, ".open"):
				return nil
			case err != nil:
				return err
			case rec.Type != warc.TypeMetadata:
				continue
			}
			block, err := io.ReadAll(io.LimitReader(rec, 64<<20))
			if errors.Is(err, warc.ErrTruncated) && strings.HasSuffix(name, ".open") {
				return nil
			}
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(block)) {
				if target, ok := strings.CutPrefix(strings.TrimSpace(line), "outlink: "); ok {
					if _, err := fmt.Fprintf(w, "%s\t%s\n", rec.TargetURI, target); err != nil {
						return err
					}
				}
			}
		}
	})
}

// maxIndex bounds the lines of the index gathered in memory from other peers' archives.
const maxIndex = 1 << 30

// exportCDXJ writes the index of all responses and revisits, sorted.
func exportCDXJ(ctx context.Context, net caller, peers []peer.ID, w io.Writer) error {
	var lines []string
	size := 0
	err := eachArchive(ctx, net, peers, func(name string, r io.Reader) error {
		found, err := warc.Index(r, strings.TrimSuffix(name, ".open"))
		for line := range strings.Lines(string(found)) {
			if size += len(line); size > maxIndex {
				return errors.New("the index is too large to be sorted in memory; export peer by peer")
			}
			lines = append(lines, line)
		}
		if errors.Is(err, warc.ErrTruncated) && strings.HasSuffix(name, ".open") {
			return nil
		}
		return err
	})
	slices.Sort(lines)
	for _, line := range lines {
		if _, werr := io.WriteString(w, line); werr != nil {
			return werr
		}
	}
	return err
}
