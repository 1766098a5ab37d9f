package fetch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxChunkNoise bounds the bytes of chunk lines beyond those that chunks of a typical size have.
const maxChunkNoise = 16 << 10

// chunks removes the chunked coding (RFC 9112, section 7.1) as browsers do: a line may end in LF
// alone, and a body that does not begin with a chunk size is not in the coding. Later syntax errors
// are errMalformed. It does not read the trailer.
type chunks struct {
	r     *bufio.Reader
	first bool      // nothing was read
	plain io.Reader // the body, if it is not chunked
	left  int64     // remaining bytes of the chunk
	noise int64
	err   error
}

// Read implements io.Reader.
func (c *chunks) Read(p []byte) (int, error) {
	if c.plain == nil && c.err == nil && c.left == 0 {
		c.next()
	}
	if c.plain != nil {
		return c.plain.Read(p)
	}
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	if c.left -= int64(n); err == nil && c.left == 0 {
		err = c.end()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	c.err = err
	return n, err
}

// next reads a chunk's size line.
func (c *chunks) next() {
	line, err := c.r.ReadSlice('\n')
	text, _, _ := strings.Cut(string(bytes.TrimSpace(line)), ";")
	size, bad := strconv.ParseInt(strings.TrimRight(text, " \t"), 16, 63)
	c.noise = max(0, c.noise+int64(len(line))-16-2*max(size, 0))
	switch {
	case c.first && len(line) > 0 && (bad != nil || size < 0):
		c.plain = io.MultiReader(bytes.NewReader(bytes.Clone(line)), c.r)
	case err != nil && errors.Is(err, io.EOF):
		c.err = io.ErrUnexpectedEOF
	case err != nil && !errors.Is(err, bufio.ErrBufferFull):
		c.err = err
	case err != nil || bad != nil || size < 0 || c.noise > maxChunkNoise:
		c.err = fmt.Errorf("%w: chunk line %.60q", errMalformed, line)
	case size == 0:
		c.err = io.EOF
	}
	c.first, c.left = false, size
}

// end reads the line end after a chunk.
func (c *chunks) end() error {
	b, err := c.r.ReadByte()
	if err == nil && b == '\r' {
		b, err = c.r.ReadByte()
	}
	if err == nil && b != '\n' {
		err = fmt.Errorf("%w: byte %#x after a chunk", errMalformed, b)
	}
	return err
}
