package inspect

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

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage/warc"
)

// ServiceFiles is the service that provides archive files to other peers, for export --ring.
const ServiceFiles = "files"

const (
	// maxFileRead limits one response of the service.
	maxFileRead = 1 << 20
	// maxFileList limits the names in one response; the caller requests more after the last.
	maxFileList = 5_000
	// maxFileRequest limits a request, in bytes.
	maxFileRequest = 4096
)

// fileRequest requests a part of a file or, without a name, the files after one in the list.
type fileRequest struct {
	Name   string `json:"name,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	After  string `json:"after,omitempty"`
}

// archiveFiles serves the files of a peer's archive: only WARC files and their indexes. flush, if
// not nil, writes buffered records before the files are listed.
type archiveFiles struct {
	dir   string
	flush func() error
}

// handle returns a list of files, or bytes of a file from an offset; an empty response is its end.
func (a archiveFiles) handle(_ context.Context, _ peer.ID, raw []byte) ([]byte, error) {
	var req fileRequest
	if len(raw) > maxFileRequest || json.Unmarshal(raw, &req) != nil {
		return nil, rpc.Refuse("files: invalid request")
	}
	if req.Name != "" {
		return a.part(req.Name, req.Offset)
	}
	files, err := a.list(req.After)
	if err != nil {
		return nil, err
	}
	return json.Marshal(files)
}

// part reads at most maxFileRead bytes of a file from offset.
func (a archiveFiles) part(name string, offset int64) ([]byte, error) {
	if !isArchive(name) || offset < 0 {
		return nil, rpc.Refuse("files: no such file")
	}
	f, err := warc.OpenFile(a.dir, name)
	if err != nil {
		return nil, rpc.Refuse("files: no such file")
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, min(maxFileRead, max(info.Size()-offset, 0))) // a pending response holds the whole buffer
	n, err := f.ReadAt(buf, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf[:n], nil
}

// openSuffix marks the file being written, indexSuffix an index.
const (
	openSuffix  = ".open"
	indexSuffix = ".cdxj"
)

// isArchive reports whether name is a WARC file, finished or not, or a finished index, without a
// directory.
func isArchive(name string) bool {
	if name != filepath.Base(name) || strings.ContainsAny(name, "/\\\x00") {
		return false
	}
	_, _, ok := warc.CutName(name)
	return ok || strings.HasSuffix(name, indexSuffix) || strings.HasSuffix(name, warc.MovedIndex)
}

// list returns the WARC files and the indexes of moved ones after a name, sorted by name, without
// the suffix of the file being written.
func (a archiveFiles) list(after string) ([]control.ArchiveFile, error) {
	if a.flush != nil {
		if err := a.flush(); err != nil {
			return nil, err
		}
	}
	paths, err := warc.Files(a.dir, true)
	if errors.Is(err, fs.ErrNotExist) {
		return []control.ArchiveFile{}, nil
	}
	if err != nil {
		return nil, err
	}
	moved, _ := fs.Glob(os.DirFS(a.dir), "*"+warc.MovedIndex)
	paths = append(paths, moved...)
	slices.Sort(paths)
	files := []control.ArchiveFile{}
	for _, p := range paths {
		name, open := strings.CutSuffix(filepath.Base(p), openSuffix)
		if name <= after {
			continue
		}
		if len(files) == maxFileList {
			break
		}
		f := control.ArchiveFile{Name: name, Open: open}
		if info, err := os.Stat(p); err == nil {
			f.Bytes = info.Size()
		}
		files = append(files, f)
	}
	return files, nil
}

// filesOf requests the list of a peer's archive files.
func filesOf(ctx context.Context, ask func(ctx context.Context, req []byte) ([]byte, error)) ([]control.ArchiveFile, error) {
	all := []control.ArchiveFile{}
	after := ""
	for {
		raw, err := askFiles(ctx, ask, fileRequest{After: after})
		if err != nil {
			return nil, err
		}
		var files []control.ArchiveFile
		if err := unpack(raw, &files); err != nil {
			return nil, fmt.Errorf("list of files: %w", err)
		}
		for _, f := range files {
			if !isArchive(f.Name) || f.Name <= after || strings.HasSuffix(f.Name, openSuffix) || strings.HasSuffix(f.Name, indexSuffix) {
				return nil, fmt.Errorf("list of files: invalid name %.80q", f.Name)
			}
			after = f.Name
		}
		all = append(all, files...)
		if len(files) < maxFileList {
			return all, nil
		}
		if len(all) > maxArchive {
			return nil, fmt.Errorf("list of files: more than %d", maxArchive)
		}
	}
}

// maxArchive limits the files of one peer's archive.
const maxArchive = 1_000_000

func askFiles(ctx context.Context, ask func(ctx context.Context, req []byte) ([]byte, error), req fileRequest) ([]byte, error) {
	raw, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	return ask(ctx, raw)
}

// copyFile writes a peer's file from offset on, in parts.
func copyFile(ctx context.Context, ask func(ctx context.Context, req []byte) ([]byte, error), name string, offset int64, w io.Writer) error {
	for {
		part, err := askFiles(ctx, ask, fileRequest{Name: name, Offset: offset})
		if err != nil {
			return err
		}
		if len(part) == 0 {
			return nil
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		offset += int64(len(part))
	}
}
