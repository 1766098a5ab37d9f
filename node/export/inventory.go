package export

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/warc"
)

// inventory compares what archives hold with what the records of URLs say that they hold. It sorts
// lines on disk: the ID of a WARC record, then that it was read, or who should have it.
type inventory struct{ *sorter }

const (
	lineRead     = " a"
	lineExpected = " b "
	seconds      = "2006-01-02T15:04:05" // precision of the time in an index
)

// has notes a record that was read.
func (i inventory) has(id string) error {
	if strings.ContainsAny(id, " \n") {
		return nil // none of ours
	}
	return i.add([]byte(id + lineRead + "\n"))
}

// expects notes a record that a peer should hold.
func (i inventory) expects(l *control.URLLine) error {
	return i.add([]byte(l.Record + lineExpected + l.Holder + " " + l.URL + " " + l.Fetched[:min(len(l.Fetched), len(seconds))] + "\n"))
}

// Lost is a record that should be in an archive and is in none.
type Lost struct {
	Peer   string `json:"peer"`   // ID of the peer that should have it
	Record string `json:"record"` // ID of the record, as urn:uuid
	URL    string `json:"url"`    // that was fetched
}

// maxLost bounds the lost records that a report names.
const maxLost = 10_000

// expect lists the records that archives should hold, by the records of URLs. It does so before the
// archives are read: a page is in its archive before its outcome is written down.
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
				e.missing(p.Peer, "", fmt.Errorf("which records there should be is not known: %w", err))
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

// lost tells of the records that are in no archive. What is known to be missing or damaged is not
// told twice.
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

// unread calls fn for each key that is expected and was not read, with what was noted of it.
func (i inventory) unread(ctx context.Context, fn func(key, rest string) error) error {
	last := ""
	return i.merge(ctx, func(line []byte) error {
		key, rest, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if key == last {
			return nil // it was read, or fn has it
		}
		last = key
		if expected, is := strings.CutPrefix(rest, lineExpected[1:]); is {
			return fn(key, expected)
		}
		return nil
	})
}
