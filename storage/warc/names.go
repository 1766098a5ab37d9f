package warc

import "strings"

const (
	indexSuffix = ".cdxj"
	openSuffix  = ".open"
	tempSuffix  = ".tmp"
	timeInName  = "20060102150405"
)

// form is how files of a compression are called, and how a record in them begins.
type form struct {
	compression   Compression
	suffix, magic string
}

var forms = []form{
	{Gzip, ".warc.gz", "\x1f\x8b\x08"},
	{Zstd, ".warc.zst", "\x28\xb5\x2f\xfd"},
	{None, ".warc", "WARC/1."},
}

// form is that of None unless it is known.
func (c Compression) form() form {
	for _, f := range forms {
		if f.compression == c {
			return f
		}
	}
	return forms[len(forms)-1]
}

// Suffix is what the names of files of that compression end in.
func (c Compression) Suffix() string { return c.form().suffix }

// CutName takes the suffix off the name of an archive file, finished or being written, and says
// which compression it tells of. ok is false for other names.
func CutName(name string) (base string, c Compression, ok bool) {
	name = strings.TrimSuffix(name, openSuffix)
	for _, f := range forms {
		if base, ok := strings.CutSuffix(name, f.suffix); ok {
			return base, f.compression, true
		}
	}
	return name, "", false
}

// IndexName is the name of the index beside an archive file.
func IndexName(name string) string {
	base, _, _ := CutName(name)
	return base + indexSuffix
}
