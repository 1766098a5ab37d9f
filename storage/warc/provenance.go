package warc

import (
	"io"
	"strings"
)

// Provenance is why a URL was fetched, and what became of it. Fields that are unknown, as in
// archives of earlier versions, are empty.
type Provenance struct {
	Job     string // ID: 32 hexadecimal digits
	Outcome string // of the URL in the job
	Via     string // URL of the page that led to it first
	HopPath string // a letter for each hop from the seed, such as L for a link and R for a redirect
	Seed    string // URL
	FetchMs string // duration of the fetch in milliseconds
	Depth   string // links from a seed, in decimal
	Visit   string // number of the visit after the first fetch, in decimal; empty at the first
	Change  string // what that visit found: not-modified, same, body, text or unknown
	Before  string // digest of the body before it, in the form of Entry.Digest
}

// maxProvenance limits the bytes of a metadata record that are read for its provenance, which comes
// before the outlinks: two URLs and a path.
const maxProvenance = 64 << 10

// provenanceField is a field of a metadata record with its key in an index line.
type provenanceField struct {
	name, key string
	value     *string
}

func (p *Provenance) fields() [10]provenanceField {
	return [...]provenanceField{
		{"job", "job", &p.Job},
		{"outcome", "outcome", &p.Outcome},
		{"via", "via", &p.Via},
		{"hopsFromSeed", "hops", &p.HopPath},
		{"seed", "seed", &p.Seed},
		{"fetchTimeMs", "ms", &p.FetchMs},
		{"depth", "depth", &p.Depth},
		{"visit", "visit", &p.Visit},
		{"change", "change", &p.Change},
		{"before", "before", &p.Before},
	}
}

// set sets a field once. Earlier versions wrote a number of hops, which is not a path.
func (p *Provenance) set(name, value string) {
	for _, f := range p.fields() {
		if f.name == name && *f.value == "" && (f.value != &p.HopPath || strings.Trim(value, "0123456789") != "") {
			*f.value = strings.TrimSpace(value)
		}
	}
}

// provenanceOf returns the fields as readProvenance finds them in the metadata record.
func provenanceOf(fields []Field) (p Provenance) {
	for _, f := range fields {
		p.set(f.Name, strings.TrimSpace(withoutControl(f.Value)))
	}
	return p
}

// Provenance reads the start of a metadata record.
func (r *Record) Provenance() (Provenance, error) {
	block, err := io.ReadAll(io.LimitReader(r, maxProvenance))
	return readProvenance(block), err
}

// readProvenance reads the first bytes of the block of a metadata record.
func readProvenance(block []byte) (p Provenance) {
	for line := range strings.Lines(string(block)) {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "outlink" || !strings.HasSuffix(line, "\n") {
			break
		}
		p.set(name, strings.TrimSpace(value))
	}
	return p
}

// withoutControl drops the characters that could end a line early.
func withoutControl(s string) string {
	if !hasControl(s) {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c != 0x7f {
			out = append(out, c)
		}
	}
	return string(out)
}
