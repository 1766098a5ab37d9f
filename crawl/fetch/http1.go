package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Limits of an HTTP/1.1 exchange.
const (
	maxInterim  = 5        // 1xx responses before the final one
	maxBlank    = 16       // bytes of empty lines before a head
	maxFields   = 1000     // lines of a head: one of three bytes takes a hundred times as much memory
	maxTrailer  = 16 << 10 // bytes of trailer fields, which are discarded
	maxDrain    = 4 << 10  // bytes read past the end so that the connection can be reused
	maxReasoned = 256      // bytes of a reason phrase that are archived
)

// wire reads a connection within its timeouts. It is the source of the buffered reader of an
// exchange.
type wire struct {
	ctx  context.Context //nolint:containedctx // lives as long as the exchange
	conn *conn
	pace pace
	err  error // the first
}

// Read waits until the deadline of pace.
func (w *wire) Read(p []byte) (int, error) {
	deadline, reason := w.pace.next()
	if err := w.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	if err := w.ctx.Err(); err != nil { // the deadline just set may have replaced the one that signals the end of ctx
		return 0, err
	}
	n, err := w.conn.Read(p)
	w.pace.came(n)
	if err != nil && isTimeout(err) {
		err = reason
	}
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// http1 makes the exchange over an HTTP/1.1 connection.
func (x *exchange) http1(c *conn, resp *Response) error {
	if err := x.permit(c); err != nil {
		return err
	}
	c.broken = true // until the exchange succeeds
	stop := context.AfterFunc(x.ctx, c.abort)
	defer func() {
		if !stop() {
			c.broken = true // its deadline was or will be moved
		}
	}()

	s := resp.scratch
	before := c.meter.n.Load()
	resp.Start = time.Now()
	config := &x.f.config
	s.wire = wire{ctx: x.ctx, conn: c, pace: pace{
		end: x.end, headEnd: resp.Start.Add(x.headWithin()), grace: minRateGrace, rate: config.lab.MinRate, track: x.track(c),
	}}
	s.reader.Reset(&s.wire)
	if err := x.writeHead(c, s); err != nil {
		return err
	}
	m, err := x.readHead(c, resp)
	if err != nil {
		return err
	}
	s.wire.pace.got, s.wire.pace.body = 0, time.Now()
	if m.length >= 0 {
		s.wire.pace.track.left(max(m.length-int64(s.reader.Buffered()), 0))
	}
	reusable, err := x.readBody(&m, resp)
	if err != nil {
		return x.failBody(resp, err)
	}
	resp.Duration = time.Since(resp.Start)
	resp.WireBytes = c.meter.n.Load() - before
	resp.Held = s.wire.pace.track.held()
	s.response = appendResponseHead(s.response[:0], resp.Status, m.reason, s.fields, int64(len(resp.Body)), resp.ContentEncoding != "")
	resp.ResponseHead = s.response
	c.broken = !reusable || s.reader.Buffered() > 0
	return nil
}

// writeHead sends the request. Only a failure of an idle connection is retried.
func (x *exchange) writeHead(c *conn, s *scratch) error {
	deadline, _ := s.wire.pace.next()
	err := c.SetWriteDeadline(deadline)
	if err == nil {
		err = x.ctx.Err()
	}
	if err == nil {
		_, err = c.Write(s.request)
	}
	if err != nil {
		return x.stale(c, err)
	}
	return nil
}

// stale distinguishes a connection that the server had closed before the request from one that
// failed later.
func (x *exchange) stale(c *conn, err error) error {
	if c.used && x.ctx.Err() == nil && !isTimeout(err) {
		return errStale
	}
	return x.fail(PhaseHead, err)
}

// unanswered is stale for a request that was written.
func (x *exchange) unanswered(c *conn, err error) error {
	if err = x.stale(c, err); errors.Is(err, errStale) {
		return errUnanswered
	}
	return err
}

// message is the framing information of a response head.
type message struct {
	reason    string
	length    int64 // of the body; -1: until the connection ends
	chunked   bool
	codings   []string // transfer codings beside chunked
	keepAlive bool
}

// readHead reads heads up to that of the final response.
func (x *exchange) readHead(c *conn, resp *Response) (message, error) {
	s := resp.scratch
	first, err := s.reader.Peek(1)
	if c.unagreed && !c.used && x.ctx.Err() == nil && (err == nil && first[0] == 0 || err != nil && !isTimeout(err)) {
		return message{}, errOnlyHTTP2
	}
	if err != nil {
		return message{}, x.unanswered(c, err)
	}
	resp.TTFB = time.Since(resp.Start)
	for range maxInterim + 1 {
		skipBlank(s.reader)
		var err error
		if s.head, err = readBlock(s.reader, s.head[:0], maxHeader); err != nil {
			return message{}, x.fail(PhaseHead, err)
		}
		m, err := parseHead(string(s.head), resp)
		if err != nil {
			return message{}, x.fail(PhaseHead, err)
		}
		if resp.Status >= 200 {
			return m, nil
		}
		if resp.Status == http.StatusSwitchingProtocols {
			return message{}, x.fail(PhaseHead, fmt.Errorf("%w: unsolicited switch of protocols", errMalformed))
		}
	}
	return message{}, x.fail(PhaseHead, fmt.Errorf("%w: more than %d interim responses", errMalformed, maxInterim))
}

// skipBlank skips empty lines before a head.
func skipBlank(r *bufio.Reader) {
	for range maxBlank {
		if b, err := r.Peek(1); err != nil || b[0] != '\r' && b[0] != '\n' {
			return
		}
		_, _ = r.Discard(1) // it was peeked
	}
}

// readBlock reads lines up to and including the first empty one into out.
func readBlock(r *bufio.Reader, out []byte, limit int) ([]byte, error) {
	lineStart := len(out)
	for {
		part, err := r.ReadSlice('\n')
		if len(out)+len(part) > limit {
			return out, fmt.Errorf("head of more than %d bytes: %w", limit, ErrTooLarge)
		}
		out = append(out, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return out, err
		}
		if line := out[lineStart:]; len(line) == 1 || len(line) == 2 && line[0] == '\r' {
			return out, nil
		}
		lineStart = len(out)
	}
}

// parseHead parses a head into resp and its fields.
func parseHead(head string, resp *Response) (message, error) {
	line, rest := cutLine(head)
	m, err := parseStatus(line, resp)
	if err != nil {
		return m, err
	}
	s := resp.scratch
	if n := strings.Count(rest, "\n"); n > maxFields+1 {
		return m, fmt.Errorf("head of %d lines, at most %d: %w", n, maxFields, ErrTooLarge)
	}
	s.fields = parseFields(s.fields[:0], rest)
	resp.Header = makeHeader(s.fields)
	m.frame(resp)
	return m, nil
}

// cutLine splits off a line and drops its end.
func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// parseStatus parses "HTTP/1.1 200 OK"; the reason, and even the space before it, may be missing.
// Any version other than HTTP/1.0 is treated as HTTP/1.1, whose syntax it has.
func parseStatus(line string, resp *Response) (message, error) {
	proto, rest, _ := strings.Cut(strings.Trim(line, " \t"), " ")
	rest = strings.TrimLeft(rest, " \t")
	code, reason, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if version, ok := strings.CutPrefix(strings.ToUpper(proto), "HTTP/"); !ok || len(code) != 3 || err != nil || status < 100 {
		return message{}, fmt.Errorf("%w: status line %.60q", errMalformed, line)
	} else if resp.Proto = "HTTP/1.1"; version == "1.0" {
		resp.Proto = "HTTP/1.0"
	}
	resp.Status = status
	return message{reason: reason[:min(len(reason), maxReasoned)]}, nil
}

// parseFields parses field lines. It skips invalid lines, as browsers do; a line that begins with a
// space continues the value before.
func parseFields(fields []field, lines string) []field {
	for lines != "" {
		var line string
		if line, lines = cutLine(lines); line == "" {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			if n := len(fields); n > 0 {
				fields[n-1].value = strings.TrimRight(fields[n-1].value+" "+strings.Trim(line, " \t"), " ")
			}
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimRight(name, " \t"); ok && httpguts.ValidHeaderFieldName(name) {
			fields = append(fields, field{name, strings.Trim(value, " \t")})
		}
	}
	return fields
}

// makeHeader makes a map of the fields; all values share one array.
func makeHeader(fields []field) http.Header {
	h := make(http.Header, len(fields))
	values := make([]string, len(fields))
	for i, f := range fields {
		name := http.CanonicalHeaderKey(f.name)
		if old, ok := h[name]; ok {
			h[name] = append(old, f.value)
			continue
		}
		values[i] = f.value
		h[name] = values[i : i+1 : i+1]
	}
	return h
}

// frame determines where the body ends (RFC 9112, section 6.3) and whether the connection can be
// reused. If the fields contradict each other, the body ends with the connection, as in browsers.
func (m *message) frame(resp *Response) {
	h := resp.Header
	m.keepAlive = !hasToken(h["Connection"], "close") && (resp.Proto == "HTTP/1.1" || hasToken(h["Connection"], "keep-alive"))
	m.length = -1
	if resp.Status < 200 || resp.Status == http.StatusNoContent || resp.Status == http.StatusNotModified {
		m.length = 0
		return
	}
	if te := h["Transfer-Encoding"]; len(te) > 0 {
		if len(h["Content-Length"]) > 0 || resp.Proto == "HTTP/1.0" {
			m.keepAlive = false // contradictory
		}
		if m.transfer(te); m.chunked {
			return
		}
	}
	m.contentLength(h["Content-Length"])
}

// transfer parses the transfer codings. A coding repeated by a proxy was applied once, chunked was
// applied last, and unknown ones are skipped.
func (m *message) transfer(values []string) {
	for c := range tokens(values) {
		if c == "chunked" {
			m.chunked = true
		} else if codings := contentCodings([]string{c}); codings != nil && !m.chunked {
			m.codings = append(m.codings, codings...)
		} else if c != "" && c != "identity" {
			m.keepAlive = false
		}
	}
}

// contentLength parses the length, which may be given more than once. An empty, invalid or
// contradictory one is ignored.
func (m *message) contentLength(values []string) {
	for v := range tokens(values) {
		if v == "" {
			continue
		}
		n, err := strconv.ParseUint(v, 10, 63)
		if err != nil || m.length >= 0 && int64(n) != m.length {
			m.length = -1
			break
		}
		m.length = int64(n)
	}
	if m.length < 0 {
		m.keepAlive = false
	}
}

// tokens iterates over the elements of a list in lower case, which may be empty.
func tokens(values []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, v := range values {
			for t := range strings.SplitSeq(v, ",") {
				if !yield(strings.ToLower(strings.Trim(t, " \t"))) {
					return
				}
			}
		}
	}
}

func hasToken(values []string, token string) bool {
	for t := range tokens(values) {
		if t == token {
			return true
		}
	}
	return false
}

// readBody reads the body into resp and reports whether the connection can be reused.
func (x *exchange) readBody(m *message, resp *Response) (reusable bool, err error) {
	s := resp.scratch
	var src io.Reader
	var fixed io.LimitedReader
	switch {
	case m.chunked:
		src = &chunks{r: s.reader, first: true}
	case m.length >= 0:
		fixed = io.LimitedReader{R: s.reader, N: m.length}
		src = &fixed
	default:
		src = s.reader
	}
	if err := x.decode(src, m.length, m.codings, resp); err != nil {
		return false, err
	}
	switch {
	case resp.Truncated != "":
		return false, nil
	case m.chunked:
		return m.keepAlive && drained(src) && trailersRead(s), nil
	case m.length < 0:
		return false, nil
	default: // larger rests are not worth the wait
		return m.keepAlive && (fixed.N == 0 || drained(src) && fixed.N == 0), nil
	}
}

// drained reads the short rest after the end of an encoded body and reports whether the end was
// reached.
func drained(src io.Reader) bool {
	_, err := io.CopyN(io.Discard, src, maxDrain)
	return errors.Is(err, io.EOF)
}

// trailersRead reads and discards the trailer fields of a chunked body.
func trailersRead(s *scratch) bool {
	_, err := readBlock(s.reader, s.head[:0], maxTrailer)
	return err == nil
}

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
