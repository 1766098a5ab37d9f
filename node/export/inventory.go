package export

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/warc"
)

// inventory compares the records in archives with those of URL outcomes. It sorts lines on disk:
// the ID of a WARC record, then a mark that it was read, or its expected holder.
type inventory struct{ *sorter }

const (
	lineRead     = " a"
	lineExpected = " b "
	seconds      = "2006-01-02T15:04:05" // precision of the time in an index
)

// has records that a record was read.
func (i inventory) has(id string) error {
	if strings.ContainsAny(id, " \n") {
		return nil // not written by apoidea
	}
	return i.add([]byte(id + lineRead + "\n"))
}

// expects records that a peer should hold a record.
func (i inventory) expects(l *control.URLLine) error {
	return i.add([]byte(l.Record + lineExpected + l.Holder + " " + l.URL + " " + l.Fetched[:min(len(l.Fetched), len(seconds))] + "\n"))
}

// Lost is a record that should be in an archive but is in none.
type Lost struct {
	Peer   string `json:"peer"`   // ID of the peer that should have it
	Record string `json:"record"` // ID of the record, as urn:uuid
	URL    string `json:"url"`    // the fetched URL
}

// maxLost limits the lost records in a report.
const maxLost = 10_000

// expect lists the records that archives should hold according to URL outcomes. It runs before
// archives are read, because a page is archived before its outcome is stored.
func (e *exporter) expect(ctx context.Context, found *control.Archives) error {
	if e.What == URLs {
		return nil
	}
	there := make(map[string]bool)
	for _, p := range found.Peers {
		there[p.Peer] = true
	}
	for _, p := range found.Peers {
		at := e.work.journal.Expected[p.Peer]
		for p.Role != "worker" && !at.End {
			page, err := e.src.URLs(ctx, p.Peer, at.After)
			if err := fatal(ctx, err); err != nil {
				return err
			}
			if err != nil {
				e.missing(p.Peer, "", fmt.Errorf("expected records unknown: %w", err))
				break
			}
			for i := range page.URLs {
				if l := &page.URLs[i]; l.Record != "" && there[l.Holder] {
					if err := e.work.held.expects(l); err != nil {
						return fmt.Errorf("export: %w", err)
					}
				}
			}
			at = listed{After: page.After, End: page.After == ""}
			e.work.journal.Expected[p.Peer] = at
			if err := e.work.due(0); err != nil {
				return err
			}
			e.tell("listing")
		}
	}
	return nil
}

// lost reports the records that are in no archive, except those of missing sources and skipped
// parts.
func (e *exporter) lost(ctx context.Context) error {
	if e.What == URLs {
		return nil
	}
	known := make(map[string]bool)
	for i := range e.work.journal.Damaged {
		for _, url := range e.work.journal.Damaged[i].URLs {
			known[url] = true
		}
	}
	for i := range e.report.Missing {
		if m := &e.report.Missing[i]; m.File != "" {
			known[m.Peer] = true
		}
	}
	moved := inventory{newSorter(e.work.dir, "moved", nil)}
	for _, s := range e.moved {
		in := open(ctx, e.src, s.peer, s.file.Name, 0)
		lines, err := warc.ParseIndex(in)
		err = errors.Join(fatal(ctx, err), in.Close())
		for i := 0; err == nil && i < len(lines); i++ {
			err = moved.has(s.peer + "/" + lines[i].URL + "/" + lines[i].Date.UTC().Format(seconds))
		}
		if err != nil {
			return err
		}
	}
	away := int64(0)
	err := e.work.held.unread(ctx, func(id, rest string) error {
		part := strings.Split(rest, " ") // peer, URL, and time
		if len(part) != 3 || known[part[1]] || known[part[0]] {
			return nil
		}
		away++
		return moved.add([]byte(strings.Join(part, "/") + lineExpected + part[0] + " " + part[1] + " " + id + "\n"))
	})
	if err != nil {
		return err
	}
	err = moved.unread(ctx, func(_, rest string) error {
		part := strings.Split(rest, " ")
		if e.report.LostTotal++; len(e.report.Lost) < maxLost {
			e.report.Lost = append(e.report.Lost, Lost{Peer: part[0], Record: part[2], URL: part[1]})
		}
		return nil
	})
	e.report.Moved = away - e.report.LostTotal
	return err
}

// unread calls fn for each expected key that was not read, with its data.
func (i inventory) unread(ctx context.Context, fn func(key, rest string) error) error {
	last := ""
	return i.merge(ctx, func(line []byte) error {
		key, rest, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if key == last {
			return nil // it was read, or passed to fn
		}
		last = key
		if expected, is := strings.CutPrefix(rest, lineExpected[1:]); is {
			return fn(key, expected)
		}
		return nil
	})
}
