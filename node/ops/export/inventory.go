package export

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/extsort"
	"github.com/apoidea/apoidea/storage/warc"
)

// seconds is the precision of the time in an index.
const seconds = "2006-01-02T15:04:05"

// Lost is a record that should be in an archive but is in none.
type Lost struct {
	Peer   string `json:"peer"`   // ID of the peer that should have it
	Record string `json:"record"` // ID of the record, as urn:uuid
	URL    string `json:"url"`    // the fetched URL
}

// maxLost limits the lost records in a report.
const maxLost = 10_000

// expect lists the records that archives should hold according to URL outcomes, and counts them by
// holder. It runs before archives are read, because a page is archived before its outcome is
// stored.
func (e *exporter) expect(ctx context.Context, found *control.Archives) error {
	if e.outcomes() {
		return nil
	}
	there := make(map[string]bool)
	for _, p := range found.Peers {
		there[p.Peer] = true
	}
	for _, p := range found.Peers {
		for after, end := "", p.Role == "worker"; !end; {
			page, err := e.src.URLs(ctx, p.Peer, after)
			if err := fatal(ctx, err); err != nil {
				return err
			}
			if err != nil {
				e.missing(p.Peer, "", fmt.Errorf("expected records unknown: %w", err))
				break
			}
			for i := range page.URLs {
				l := &page.URLs[i]
				if s := SubjectOfURL(l); l.Record == "" && e.tables == nil || !e.Filter.Match(&s) {
					continue
				}
				if l.Record == "" {
					if !e.tables.wantsRows() {
						continue
					}
					e.matched++
					if err := e.tables.unarchived(l); err != nil {
						return err
					}
					continue
				}
				e.held[l.Holder]++
				if there[l.Holder] && e.tables == nil && e.What != Changes {
					if err := e.work.expect.Add([]byte(l.Record + markExpected + l.Holder + " " + l.URL + " " + l.Fetched[:min(len(l.Fetched), len(seconds))])); err != nil {
						return fmt.Errorf("export: %w", err)
					}
				}
			}
			after, end = page.After, page.After == ""
			e.reportProgress("listing")
		}
	}
	return nil
}

// lost reports the expected records that were not read, except those of missing sources, of skipped
// parts, and of files that were moved.
func (e *exporter) lost(ctx context.Context) (err error) {
	if e.outcomes() {
		return nil
	}
	known := make(map[string]bool)
	for i := range e.work.damaged {
		for _, url := range e.work.damaged[i].URLs {
			known[url] = true
		}
	}
	for i := range e.report.Missing {
		if m := &e.report.Missing[i]; m.File != "" {
			known[m.Peer] = true
		}
	}
	places := extsort.New(e.work.dir) // of records that were not read, behind those of moved ones
	defer func() { err = errors.Join(err, places.Close()) }()
	for _, s := range e.moved {
		in := open(ctx, e.src, s.peer, s.file.Name, 0)
		err := warc.ScanIndex(in, func(l *warc.IndexLine) error {
			return places.Add([]byte(s.peer + " " + l.URL + " " + l.Date.UTC().Format(seconds) + markRead))
		})
		if err := errors.Join(fatal(ctx, err), in.Close()); err != nil {
			return err
		}
	}
	if err := expectations(ctx, e.work.expect, func(id, at string, read bool) error {
		if read {
			return nil
		}
		return places.Add([]byte(at + markExpected + id))
	}); err != nil {
		return err
	}
	return expectations(ctx, places, func(at, id string, moved bool) error {
		part := strings.Split(at, " ") // peer, URL, and time
		if len(part) != 3 || known[part[1]] || known[part[0]] {
			return nil
		}
		if moved {
			e.report.Moved++
			return nil
		}
		if e.report.LostTotal++; len(e.report.Lost) < maxLost {
			e.report.Lost = append(e.report.Lost, Lost{Peer: part[0], Record: id, URL: part[1]})
		}
		return nil
	})
}

// Marks behind a key: a record that was read sorts before an expected one.
const (
	markRead     = "\x00a"
	markExpected = "\x00e"
)

// expectations calls fn for each expected key with what follows the mark, and whether it was read.
func expectations(ctx context.Context, lines *extsort.Sorter, fn func(key, value string, read bool) error) error {
	read, last := "", ""
	return lines.Each(ctx, func(line []byte) error {
		if last == string(line) {
			return nil
		}
		last = string(line)
		key, value, _ := strings.Cut(last, "\x00")
		if value == markRead[1:] {
			read = key
			return nil
		}
		return fn(key, strings.TrimPrefix(value, markExpected[1:]), key == read)
	})
}
