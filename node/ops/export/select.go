package export

import (
	"bytes"
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"slices"

	"github.com/apoidea/apoidea/storage/warc"
)

// selection decides which records of a file match the filter: those of an exchange together, by
// its line in the file's index, or in one made of its records.
type selection struct {
	e       *exporter
	s       *source
	lines   map[int64]verdict // by the offset of the response; nil until needed
	scanned int64             // records before have a line if they can
	id      string            // of the last response
	keep    bool              // the records of that exchange
}

type verdict struct {
	keep bool
	url  uint64 // hash
}

var urlSeed = maphash.MakeSeed()

// keeps reports whether the filter selects a record. A warcinfo record is always kept.
func (x *selection) keeps(ctx context.Context, rec *warc.Record) (ok bool, err error) {
	switch {
	case x.e.all || rec.Type == warc.TypeWarcinfo:
		return true, nil
	case rec.Type == warc.TypeResponse || rec.Type == warc.TypeRevisit:
		x.keep, err = x.response(ctx, rec)
		x.id = rec.ID
		return x.keep, err
	case x.id != "" && rec.ConcurrentTo() == x.id:
		return x.keep, nil
	}
	return x.alone(rec), nil
}

// alone decides on a record whose response is unreadable, or that has none.
func (x *selection) alone(rec *warc.Record) bool {
	s := subject(rec.TargetURI, rec.Date)
	return x.e.Filter.Match(&s)
}

func (x *selection) response(ctx context.Context, rec *warc.Record) (bool, error) {
	if x.lines == nil {
		x.lines = make(map[int64]verdict)
		in := open(ctx, x.e.src, x.s.peer, warc.IndexName(x.s.file.Name), 0)
		_ = warc.ScanIndex(in, x.add) // for records without a line one is made
		_ = in.Close()
	}
	hash := maphash.String(urlSeed, rec.TargetURI)
	v, ok := x.lines[rec.Offset]
	if (!ok || v.url != hash) && rec.Offset >= x.scanned {
		if err := x.scan(ctx, rec.Offset); err != nil {
			return false, err
		}
		v, ok = x.lines[rec.Offset]
	}
	if !ok || v.url != hash {
		return x.alone(rec), nil
	}
	return v.keep, nil
}

// scan indexes the records from an offset on, up to one that is unreadable.
func (x *selection) scan(ctx context.Context, offset int64) error {
	in := open(ctx, x.e.src, x.s.peer, x.s.file.Name, offset)
	lines, err := warc.Index(in, x.s.file.Name, nil)
	_ = in.Close()
	if err != nil && !warc.IsDamage(err) {
		return err
	}
	x.scanned = offset + 1
	if err == nil {
		x.scanned = math.MaxInt64
	}
	return warc.ScanIndex(bytes.NewReader(lines), func(l *warc.IndexLine) error {
		l.Offset += offset
		x.scanned = max(x.scanned, l.Offset+l.Length)
		return x.add(l)
	})
}

func (x *selection) add(l *warc.IndexLine) error {
	s := SubjectOfLine(l)
	x.lines[l.Offset] = verdict{x.e.Filter.Match(&s), maphash.String(urlSeed, l.URL)}
	return nil
}

// concerns removes the lines that the filter does not select. It reports whether a lost part of the
// file may have records that it selects: those of an exchange reach to the next one.
func (e *exporter) concerns(d *Damage, lines []warc.IndexLine) (matching []warc.IndexLine, ok bool) {
	slices.SortFunc(lines, func(a, b warc.IndexLine) int { return cmp.Compare(a.Offset, b.Offset) })
	for i := range lines {
		if s := SubjectOfLine(&lines[i]); !e.Filter.Match(&s) {
			continue
		}
		matching = append(matching, lines[i])
		before := d.Bytes > 0 && lines[i].Offset >= d.Offset+d.Bytes
		after := i+1 < len(lines) && lines[i+1].Offset <= d.Offset
		ok = ok || !before && !after
	}
	return matching, ok
}
