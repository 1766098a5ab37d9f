package export

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/storage/warc"
)

// Change is a line of export changes: a visit after the first fetch.
type Change struct {
	At     time.Time `json:"at"`               // of the request; first, so that lines sort by it
	URL    string    `json:"url"`              // canonical
	Change string    `json:"change"`           // not-modified, same, body, text or unknown
	By     string    `json:"by,omitempty"`     // what decided: 304, digest or text
	Before string    `json:"before,omitempty"` // digest of the body before
	After  string    `json:"after,omitempty"`  // digest of the body
	Visit  int64     `json:"visit"`            // number after the first fetch
	Bytes  int64     `json:"bytes"`            // of the record in the archive, compressed
	Job    string    `json:"job,omitempty"`    // ID
}

// deciding is what decides on each change.
var deciding = map[pages.Change]string{
	pages.NotModified: "304", pages.SameBody: "digest", pages.OtherBody: "text", pages.OtherText: "text",
}

// change adds the line of a visit that changed something, or of any with All.
func (e *exporter) change(l *warc.IndexLine) error {
	if s := SubjectOfLine(l); !e.Filter.Match(&s) {
		return nil
	}
	e.matched++
	found := pages.Change(l.Change)
	if found == "" || !e.All && found != pages.OtherBody && found != pages.OtherText {
		return nil
	}
	c := Change{At: l.Date.UTC(), URL: l.URL, Change: l.Change, By: deciding[found], Before: l.Before, After: l.Digest, Bytes: l.Length, Job: l.Job}
	c.Visit, _ = strconv.ParseInt(l.Visit, 10, 64)
	if c.After == warc.NoDigest {
		c.After = l.Before
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&c); err != nil {
		return err
	}
	e.work.records++
	return e.work.lines.Add(line.Bytes())
}
