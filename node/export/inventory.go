package export

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/apoidea/apoidea/node/control"
)

// inventory compares what archives hold with what the records of URLs say that they hold. It sorts
// lines on disk: the ID of a WARC record, then that it was read, or who should have it.
type inventory struct{ *sorter }

const (
	lineRead     = " a"
	lineExpected = " b "
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
	return i.add([]byte(l.Record + lineExpected + l.Holder + " " + l.URL + "\n"))
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
	last := ""
	return e.work.held.merge(ctx, func(line []byte) error {
		id, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte{'\n'}), []byte{' '})
		expected, is := bytes.CutPrefix(rest, []byte(lineExpected[1:]))
		if string(id) == last {
			return nil // it was read, or told of
		}
		if last = string(id); !is {
			return nil
		}
		peer, url, _ := strings.Cut(string(expected), " ")
		if known[url] || known[peer] {
			return nil
		}
		if e.report.LostTotal++; len(e.report.Lost) < maxLost {
			e.report.Lost = append(e.report.Lost, Lost{Peer: peer, Record: last, URL: url})
		}
		return nil
	})
}
