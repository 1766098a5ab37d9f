package registry

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
)

// maxFile bounds the decompressed bytes read of a file: 1 M networks with long names take about 150
// MB, a matrix of 4,096 rows about as much.
const maxFile = 512 << 20

// Read opens a file, decompresses it if necessary, and passes it on; a file over maxFile is an
// error.
func Read(path string, then func(in *bufio.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in, done, err := unpack(f)
	if err != nil {
		return err
	}
	defer done()
	return then(in)
}

// unpack returns a reader of the plain text of a possibly compressed file.
func unpack(r io.Reader) (in *bufio.Reader, done func(), err error) {
	in, done = bufio.NewReaderSize(r, 1<<16), func() {}
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, err
		}
		in, done = bufio.NewReaderSize(z, 1<<16), func() { _ = z.Close() } // read-only
	}
	return bufio.NewReaderSize(&bounded{in, maxFile}, 1<<16), done, nil
}

// bounded fails after so many bytes.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("more than %d MiB", maxFile>>20)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Table is a CSV file with a header that names its columns.
type Table struct {
	rows    *csv.Reader
	columns map[string]int
	fields  []string
}

// NewTable reads the header, which must have the given columns.
func NewTable(in io.Reader, columns ...string) (*Table, error) {
	t := &Table{rows: csv.NewReader(in), columns: make(map[string]int)}
	t.rows.ReuseRecord = true
	header, err := t.rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("line 1: missing header")
	}
	if err != nil {
		return nil, err
	}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")))
		if _, twice := t.columns[name]; !twice {
			t.columns[name] = i
		}
	}
	for _, name := range columns {
		if _, ok := t.columns[name]; !ok {
			return nil, fmt.Errorf("line 1: missing column %q in header %q", name, Shorten(strings.Join(header, ",")))
		}
	}
	return t, nil
}

// Next moves to the next row. The error is io.EOF after the last one.
func (t *Table) Next() (err error) {
	t.fields, err = t.rows.Read() // rejects rows of another length than the header
	return err
}

// Field returns a field of the row, "" if there is no such column.
func (t *Table) Field(column string) string {
	if i, ok := t.columns[column]; ok {
		return strings.TrimSpace(t.fields[i])
	}
	return ""
}

// Wrong returns an error about a field of the row.
func (t *Table) Wrong(column, problem string) error {
	line, _ := t.rows.FieldPos(t.columns[column])
	return fmt.Errorf("line %d, column %s: %q %s", line, column, Shorten(t.Field(column)), problem)
}

// Prefix returns a prefix of the row, with host bits cleared.
func (t *Table) Prefix(column string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(t.Field(column))
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, t.Wrong(column, "is not a network like 192.0.2.0/24")
	}
	return p.Masked(), nil
}

// Country returns a country of the row, in capitals; "" if there is none.
func (t *Table) Country(column string) (string, error) {
	c := strings.ToUpper(t.Field(column))
	if !isCountry(c) && c != "" {
		return "", t.Wrong(column, "is not a country code of two letters")
	}
	return c, nil
}

func isCountry(c string) bool {
	letter := func(b byte) bool { return b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' } // pseudo codes like T1 and A2 are in use
	return len(c) == 2 && letter(c[0]) && letter(c[1])
}

// Shorten truncates and escapes an untrusted value for messages.
func Shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
