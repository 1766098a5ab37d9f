package warc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strconv"
	"sync"
	"time"
)

// Compression is the compression of records.
type Compression string

// The compressions. Gzip at the fastest level takes a third of the CPU time of a crawled page;
// higher levels gain little on pages of some ten kilobytes, each compressed alone. Zstd at its
// fastest takes as long and less space, but fewer tools read it.
const (
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
	None Compression = "none"
)

// Compressions lists them.
func Compressions() []string { return []string{string(Gzip), string(Zstd), string(None)} }

// Members is an encoded exchange, ready to be appended, once.
type Members struct {
	// RecordID is the identity of the response or revisit record.
	RecordID ID

	data  buffer
	index buffer // the CDXJ line up to the offset
	tail  buffer // the CDXJ line after the file name
}

// Len returns the size in the archive, in bytes.
func (m *Members) Len() int { return len(m.data) }

// buffer is a slice that implements io.Writer.
type buffer []byte

func (b *buffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// Encoder encodes exchanges into members. Create it with NewEncoder. It is safe for concurrent use.
type Encoder struct {
	scratch sync.Pool // of *scratch
	members sync.Pool // of *Members
}

// maxPooled is the capacity up to which buffers are reused, so that one giant page does not stay in
// memory.
const maxPooled = 1 << 20

// scratch is the memory of one encoding. A packer takes 0.4 to 1.5 MiB.
type scratch struct {
	packs  packer
	stores packer // for requests
	digest hash.Hash
	head   buffer // head of the record
	block  buffer // block of a metadata record
}

// NewEncoder returns an encoder. An empty compression means Gzip.
func NewEncoder(c Compression) *Encoder {
	e := &Encoder{}
	e.scratch.New = func() any {
		packs, stores := newPackers(c)
		return &scratch{packs: packs, stores: stores, digest: sha256.New()}
	}
	e.members.New = func() any { return new(Members) }
	return e
}

// Exchange encodes x. The only error is ErrExchange.
func (e *Encoder) Exchange(x *Exchange) (*Members, error) {
	if err := x.check(); err != nil {
		return nil, err
	}
	s := e.scratch.Get().(*scratch)
	defer e.recycleScratch(s)
	m := e.members.Get().(*Members)
	m.data = m.data[:0]
	m.RecordID = newID()
	date := x.Date.UTC().Truncate(time.Millisecond)

	e.response(s, m, x, date)
	// The index has only the first record: its length is that of the data so far.
	entry := entryOf(x, date)
	m.index = entry.appendStart(m.index[:0], int64(len(m.data)))
	m.tail = entry.appendEnd(m.tail[:0])
	if len(x.Request) > 0 {
		s.begin(TypeRequest, newID(), date)
		s.field("WARC-Target-URI", x.URL)
		s.idField("WARC-Concurrent-To", m.RecordID)
		s.field("Content-Type", contentTypeRequest)
		s.finish(m, s.stores, x.Request, nil)
	}
	e.metadata(s, m, x, date)
	return m, nil
}

// Metadata encodes a metadata record that belongs to no single exchange, with fields alone.
func (e *Encoder) Metadata(date time.Time, fields []Field) *Members {
	s := e.scratch.Get().(*scratch)
	defer e.recycleScratch(s)
	m := e.members.Get().(*Members)
	m.data, m.index, m.tail, m.RecordID = m.data[:0], m.index[:0], m.tail[:0], newID()
	s.block = s.block[:0]
	for _, f := range fields {
		s.block = appendField(s.block, f.Name, f.Value)
	}
	s.begin(TypeMetadata, m.RecordID, date.UTC().Truncate(time.Millisecond))
	s.field("Content-Type", contentTypeFields)
	s.finish(m, s.packs, s.block, nil)
	return m
}

// Conversion encodes c. The result is appended to dst.
func (e *Encoder) Conversion(dst []byte, c *Conversion) []byte {
	s := e.scratch.Get().(*scratch)
	defer e.recycleScratch(s)
	m := Members{data: dst}
	s.begin(TypeConversion, newID(), c.Date)
	s.field("WARC-Target-URI", c.URL)
	s.field("WARC-Refers-To", "<"+c.RefersTo+">")
	if c.Language != "" {
		s.field("WARC-Identified-Content-Language", c.Language)
	}
	s.field("Content-Type", "text/plain")
	s.finish(&m, s.packs, c.Text, nil)
	return m.data
}

// Pack compresses a record of size bytes to dst; plain writes it uncompressed.
func (e *Encoder) Pack(dst io.Writer, size int64, plain func(io.Writer) error) error {
	s := e.scratch.Get().(*scratch)
	defer e.recycleScratch(s)
	s.packs.begin(dst, size)
	return errors.Join(plain(s.packs), s.packs.Close())
}

func (e *Encoder) response(s *scratch, m *Members, x *Exchange, date time.Time) {
	kind, body := TypeResponse, x.Body
	if x.RevisitOf != nil {
		kind, body = TypeRevisit, nil
	}
	s.begin(kind, m.RecordID, date)
	s.field("WARC-Target-URI", x.URL)
	if x.IP != "" {
		s.field("WARC-IP-Address", x.IP)
	}
	if x.Protocol != "" {
		s.field("WARC-Protocol", x.Protocol)
	}
	if !x.NotModified {
		s.digestField("WARC-Payload-Digest", x.PayloadDigest[:])
	}
	switch {
	case x.NotModified:
		s.revisit(x.RevisitOf, ProfileNotModified)
	case x.RevisitOf != nil:
		s.revisit(x.RevisitOf, ProfileIdenticalDigest)
		s.field("WARC-Truncated", TruncatedLength) // the payload is left out (WARC 1.1, 6.7.2)
	case x.Truncated != "":
		s.field("WARC-Truncated", x.Truncated)
	}
	s.field("Content-Type", contentTypeResponse)
	s.finish(m, s.packs, x.ResponseHead, body)
}

func (s *scratch) revisit(of *Original, profile string) {
	s.field("WARC-Profile", profile)
	if of.RecordID != (ID{}) {
		s.idField("WARC-Refers-To", of.RecordID)
	}
	if of.URL != "" {
		s.field("WARC-Refers-To-Target-URI", of.URL)
	}
	if !of.Date.IsZero() {
		s.field("WARC-Refers-To-Date", formatDate(of.Date))
	}
}

func (e *Encoder) metadata(s *scratch, m *Members, x *Exchange, date time.Time) {
	if len(x.Fields) == 0 && len(x.Outlinks) == 0 {
		return
	}
	s.block = s.block[:0]
	for _, f := range x.Fields {
		s.block = appendField(s.block, f.Name, f.Value)
	}
	for _, link := range x.Outlinks {
		s.block = appendField(s.block, "outlink", link)
	}
	s.begin(TypeMetadata, newID(), date)
	s.field("WARC-Target-URI", x.URL)
	s.idField("WARC-Concurrent-To", m.RecordID)
	s.field("Content-Type", contentTypeFields)
	s.finish(m, s.packs, s.block, nil)
}

// begin starts the head of a record.
func (s *scratch) begin(kind Type, id ID, date time.Time) {
	s.head = append(s.head[:0], version+"\r\n"...)
	s.field("WARC-Type", string(kind))
	s.idField("WARC-Record-ID", id)
	s.field("WARC-Date", formatDate(date))
}

func (s *scratch) field(name, value string) { s.head = appendField(s.head, name, value) }

func (s *scratch) idField(name string, id ID) {
	s.head = append(s.head, name...)
	s.head = append(s.head, ": <"...)
	s.head = id.append(s.head)
	s.head = append(s.head, ">\r\n"...)
}

func (s *scratch) digestField(name string, sum []byte) {
	s.head = append(s.head, name...)
	s.head = append(s.head, ": sha256:"...)
	s.head = hex.AppendEncode(s.head, sum)
	s.head = append(s.head, "\r\n"...)
}

// finish adds the fields that depend on the block, a followed by b, and writes the record as one
// member or frame.
func (s *scratch) finish(m *Members, to packer, a, b []byte) {
	s.digest.Reset()
	s.digest.Write(a)
	s.digest.Write(b)
	var sum [sha256.Size]byte
	s.digestField("WARC-Block-Digest", s.digest.Sum(sum[:0]))
	s.head = append(s.head, "Content-Length: "...)
	s.head = strconv.AppendInt(s.head, int64(len(a)+len(b)), 10)
	s.head = append(s.head, "\r\n\r\n"...)
	to.begin(&m.data, int64(len(s.head)+len(a)+len(b)+len(recordEnd)))
	for _, part := range [][]byte{s.head, a, b, recordEnd} {
		// A write to memory does not fail.
		_, _ = to.Write(part)
	}
	_ = to.Close()
}

var recordEnd = []byte("\r\n\r\n")

// appendField writes one line. It drops control characters in value, which could end the line
// early.
func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, withoutControl(value)...)
	return append(dst, "\r\n"...)
}

// formatDate keeps milliseconds, which WARC 1.1 allows (5.4).
func formatDate(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func (e *Encoder) recycleScratch(s *scratch) {
	if cap(s.block) <= maxPooled {
		e.scratch.Put(s)
	}
}

// Recycle releases the memory of m after it was appended or dropped. m must not be used afterwards.
func (e *Encoder) Recycle(m *Members) {
	if cap(m.data) <= maxPooled {
		e.members.Put(m)
	}
}
