package export

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apoidea/apoidea/node/control"
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
				if there[l.Holder] && e.tables == nil {
					if err := e.work.sorted.set(listExpected, l.Record, l.Holder+" "+l.URL+" "+l.Fetched[:min(len(l.Fetched), len(seconds))]); err != nil {
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
func (e *exporter) lost(ctx context.Context) error {
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
	for _, s := range e.moved {
		in := open(ctx, e.src, s.peer, s.file.Name, 0)
		lines, err := warc.ParseIndex(in)
		err = errors.Join(fatal(ctx, err), in.Close())
		for i := 0; err == nil && i < len(lines); i++ {
			err = e.work.sorted.set(listMoved, s.peer+" "+lines[i].URL+" "+lines[i].Date.UTC().Format(seconds), "")
		}
		if err != nil {
			return err
		}
	}
	return e.work.sorted.each(ctx, listExpected, func(id, at []byte) error {
		part := strings.Split(string(at), " ") // peer, URL, and time
		if len(part) != 3 || known[part[1]] || known[part[0]] {
			return nil
		}
		moved, err := e.work.sorted.has(listMoved, string(at))
		if moved {
			e.report.Moved++
			return err
		}
		if e.report.LostTotal++; len(e.report.Lost) < maxLost {
			e.report.Lost = append(e.report.Lost, Lost{Peer: part[0], Record: string(id), URL: part[1]})
		}
		return err
	})
}
