package warc

import (
	"bytes"
	"time"
)

// warcinfo returns the first record of the file of that name.
func warcinfo(c Config, name string, now time.Time) []byte {
	e := NewEncoder(c.Compression)
	s := e.scratch.Get().(*scratch)
	for _, f := range []Field{
		{"software", c.Software},
		{"format", "WARC File Format 1.1"},
		{"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
		{"robots", "classic"},
		{"hostname", c.Hostname},
		{"operator", c.Operator},
		{"isPartOf", c.Prefix},
	} {
		if f.Value != "" {
			s.block = appendField(s.block, f.Name, f.Value)
		}
	}
	var m Members
	s.begin(TypeWarcinfo, newID(), now)
	s.field("WARC-Filename", name)
	s.field("Content-Type", contentTypeFields)
	s.finish(&m, s.packs, s.block, nil)
	return bytes.Clone(m.data)
}
