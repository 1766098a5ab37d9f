package warc

import "strings"

const (
	indexSuffix = ".cdxj"
	openSuffix  = ".open"
	tempSuffix  = ".tmp"
	timeInName  = "20060102150405"
)

// form has the file name suffix and the magic bytes of a compression.
type form struct {
	compression   Compression
	suffix, magic string
}

var forms = []form{
	{Gzip, ".warc.gz", "\x1f\x8b\x08"},
	{Zstd, ".warc.zst", "\x28\xb5\x2f\xfd"},
	{None, ".warc", "WARC/1."},
}

// form returns that of None for an unknown compression.
func (c Compression) form() form {
	for _, f := range forms {
		if f.compression == c {
			return f
		}
	}
	return forms[len(forms)-1]
}

// Suffix returns the suffix of the names of files with that compression.
func (c Compression) Suffix() string { return c.form().suffix }

// CutName removes the suffix from the name of an archive file, finished or open, and returns its
// compression. ok is false for other names.
func CutName(name string) (base string, c Compression, ok bool) {
	name = strings.TrimSuffix(name, openSuffix)
	for _, f := range forms {
		if base, ok := strings.CutSuffix(name, f.suffix); ok {
			return base, f.compression, true
		}
	}
	return name, "", false
}

// IndexName returns the name of the index of an archive file.
func IndexName(name string) string {
	base, _, _ := CutName(name)
	return base + indexSuffix
}
