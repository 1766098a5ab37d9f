package fetch_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// gzipChunk is a chunk that is packed.
func gzipChunk(text string) string {
	packed := pack("gzip", []byte(text))
	return fmt.Sprintf("%x\r\n%s\r\n", len(packed), packed)
}

// What servers answer, and what is made of it. An outcome of none means that the response is good.
func TestResponses(t *testing.T) {
	tests := []struct {
		name     string
		response string
		outcome  link.Outcome
		status   int
		body     string
		head     string // of the archive; "" is not checked
	}{
		{"plain", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"},
		{
			"order and case kept", "HTTP/1.1 200 OK\r\nx-B: 1\r\nX-a: 2\r\nx-B:3\r\nContent-length: 0\r\n\r\n", 0, 200, "",
			"HTTP/1.1 200 OK\r\nx-B: 1\r\nX-a: 2\r\nx-B: 3\r\nContent-length: 0\r\n\r\n",
		},
		{"until the end", "HTTP/1.1 200 OK\r\nA: b\r\n\r\nall of it", 0, 200, "all of it", "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 9\r\n\r\n"},
		{"HTTP/1.0", "HTTP/1.0 404 Not Found\r\n\r\ngone", 0, 404, "gone", "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n"},
		{
			"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3;x=y\r\n!!!\r\n0\r\nTrailer: t\r\n\r\n", 0, 200, "ok!!!",
			"HTTP/1.1 200 OK\r\nX-Crawler-Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
		},
		{
			"chunked and a length", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 0, 200, "ok",
			"HTTP/1.1 200 OK\r\nX-Crawler-Content-Length: 99\r\nX-Crawler-Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
		},
		{
			"two equal lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Crawler-Content-Length: 2\r\n\r\n",
		},
		{"no reason", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n"},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 2\nA: b\n\nok", 0, 200, "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n\r\n"},
		{
			"interim responses", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
			0, 200, "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
		},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", 0, 204, "", ""},
		{"not modified with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", 0, 304, "", ""},
		{"folded line", "HTTP/1.1 200 OK\r\nA: b\r\n\tc\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", "HTTP/1.1 200 OK\r\nA: b c\r\nContent-Length: 2\r\n\r\n"},
		{
			"lines that are no fields", "HTTP/1.1 200 OK\r\nnonsense\r\nbad name: x\r\n: y\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
		},
		{
			"control bytes in a value", "HTTP/1.1 200 OK\r\nA: b\rc\x00d\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok",
			"HTTP/1.1 200 OK\r\nA: b c d\r\nContent-Length: 2\r\n\r\n",
		},
		{
			"unknown coding", "HTTP/1.1 200 OK\r\nContent-Encoding: utf-8\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok",
			"HTTP/1.1 200 OK\r\nContent-Encoding: utf-8\r\nContent-Length: 2\r\n\r\n",
		},

		{"lengths in a list", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", 0, 200, "ok", ""},
		{"lengths in two lists", "HTTP/1.1 200 OK\r\nContent-Length: 2,2\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", ""},
		{"empty length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok", 0, 200, "ok", ""},
		{"empty length and another", "HTTP/1.1 200 OK\r\nContent-Length: \r\nContent-Length: 2\r\n\r\nok!", 0, 200, "ok", ""},
		{"chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 0, 200, "ok", ""},
		{"chunked twice in a list", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 0, 200, "ok", ""},
		{"identity and chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 0, 200, "ok", ""},
		{
			"gzip as a transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + gzipChunk("ok") + "0\r\n\r\n", 0, 200, "ok",
			"HTTP/1.1 200 OK\r\nX-Crawler-Transfer-Encoding: gzip, chunked\r\nContent-Length: 2\r\n\r\n",
		},
		{"empty line before the head", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", ""},
		{"empty lines before and between heads", "\n\r\nHTTP/1.1 100 Continue\r\n\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", ""},
		{"HTTP/2 in text", "HTTP/2 200\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n"},
		{"HTTP/2.0 in text", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"},
		{"HTTP/1.2", "HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", ""},
		{"lower case", "http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0, 200, "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"},
		{"space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok", 0, 200, "ok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"},

		{"nothing", "", link.OutcomeHTTPError, 0, "", ""},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", link.OutcomeHTTPError, 0, "", ""},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", link.OutcomeHTTPError, 0, "", ""},
		{"head cut off", "HTTP/1.1 200 OK\r\nContent-Le", link.OutcomeHTTPError, 0, "", ""},
		{"no body where one is due", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", link.OutcomeHTTPError, 0, "", ""},
		{"chunked, and is not", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n", 0, 200, "zz\r\nok\r\n0\r\n\r\n", ""},
		{"chunked, and text without a line", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<p>", 0, 200, "<p>", ""},
		{"chunk lines that end in LF", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n3 \n!!!\n0\n\n", 0, 200, "ok!!!", ""},
		{"bad chunk after a good one", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n", 0, 200, "ok", ""},
		{"chunk longer than its size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok!\r\n0\r\n\r\n", 0, 200, "ok", ""},
		{"lengths that differ", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!!", 0, 200, "ok!!", ""},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", 0, 200, "ok", ""},
		{"length with a sign", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", 0, 200, "ok", ""},
		{"redirect whose body breaks off", "HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 9\r\n\r\n", 0, 302, "", ""},
		{"unknown transfer coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: none\r\n\r\nok", 0, 200, "ok", ""},
		{"unknown transfer coding before chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: other, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 0, 200, "ok", ""},
		{"transfer coding behind chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n2\r\nok\r\n0\r\n\r\n", 0, 200, "ok", ""},
		{"lengths in a list that differ", "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok", 0, 200, "ok", ""},
		{"no version", "HTTP 200 OK\r\n\r\n", link.OutcomeHTTPError, 0, "", ""},
		{"many empty lines before the head", strings.Repeat("\r\n", 20) + "HTTP/1.1 200 OK\r\n\r\n", link.OutcomeHTTPError, 0, "", ""},
		{"switching protocols", "HTTP/1.1 101 Switching\r\n\r\n", link.OutcomeHTTPError, 0, "", ""},
		{"interim without end", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 9), link.OutcomeHTTPError, 0, "", ""},
		{"head without end", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 80<<10), link.OutcomeTooLarge, 0, "", ""},
		{"lines without end", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 20<<10), link.OutcomeTooLarge, 0, "", ""},
		{"length over the bound", "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nok", link.OutcomeTooLarge, 0, "", ""},
		{"body over the bound", "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("a", 65<<10), link.OutcomeTooLarge, 0, "", ""},
		{
			"chunks over the bound", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("800\r\n"+strings.Repeat("a", 0x800)+"\r\n", 33),
			link.OutcomeTooLarge, 0, "", "",
		},
	}
	f := newFetcher(t, func(c *fetch.Config) { c.MaxBody = 64 << 10 })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, err := f.Get(t.Context(), &fetch.Request{URL: answer(t, tt.response)})
			if tt.outcome != link.OutcomeNone {
				wantOutcome(t, err, tt.outcome)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Release()
			if resp.Status != tt.status || string(resp.Body) != tt.body {
				t.Errorf("%d %q, want %d %q", resp.Status, resp.Body, tt.status, tt.body)
			}
			if tt.head != "" && string(resp.ResponseHead) != tt.head {
				t.Errorf("head\n%q, want\n%q", resp.ResponseHead, tt.head)
			}
		})
	}
}

// A body at the bound passes; one byte more is cut where that was asked for.
func TestCut(t *testing.T) {
	f := newFetcher(t, nil)
	for _, tt := range []struct {
		name      string
		size      int
		truncated bool
	}{{"below", 99, false}, {"at the bound", 100, false}, {"above", 101, true}, {"far above", 100_000, true}} {
		for _, framing := range []string{"length", "end"} {
			t.Run(tt.name+" by "+framing, func(t *testing.T) {
				head := "HTTP/1.1 200 OK\r\n\r\n"
				if framing == "length" {
					head = "HTTP/1.1 200 OK\r\nContent-Length: " + itoa(tt.size) + "\r\n\r\n"
				}
				url := answer(t, head+strings.Repeat("a", tt.size))
				resp, err := f.Get(t.Context(), &fetch.Request{URL: url, MaxBytes: 100, Cut: true})
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Release()
				if (resp.Truncated == fetch.TruncatedLength) != tt.truncated || len(resp.Body) != min(tt.size, 100) {
					t.Errorf("%d bytes, truncated %q", len(resp.Body), resp.Truncated)
				}
			})
		}
	}
}

// Values of one field stay apart and in order, and adding to one does not write over another.
func TestHeaderValues(t *testing.T) {
	f := newFetcher(t, nil)
	resp := get(t, f, answer(t, "HTTP/1.1 200 OK\r\na: 1\r\nb: 2\r\nA: 3\r\nContent-Length: 0\r\n\r\n"))
	defer resp.Release()
	resp.Header.Add("A", "4")
	if got := strings.Join(resp.Header.Values("A"), ","); got != "1,3,4" {
		t.Errorf("A: %s", got)
	}
	if got := resp.Header.Get("B"); got != "2" {
		t.Errorf("B: %s", got)
	}
	if resp.Header.Get("Content-Length") != "0" || http.CanonicalHeaderKey("a") != "A" {
		t.Error("Content-Length is lost")
	}
}

// A head may have 64 KiB, and no more lines than anybody needs: each takes memory of its own, and
// one that continues a value has all of it copied.
func TestLinesOfHead(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		n          int
		outcome    link.Outcome
	}{
		{"many fields", "X-A: 1\r\n", 990, link.OutcomeNone},
		{"too many fields", "a:\n", 1001, link.OutcomeTooLarge},
		{"too many lines of one field", " a\n", 1001, link.OutcomeTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := answer(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"+strings.Repeat(tt.line, tt.n)+"\r\nok")
			resp, err := newFetcher(t, nil).Get(t.Context(), &fetch.Request{URL: url})
			if tt.outcome != link.OutcomeNone {
				wantOutcome(t, err, tt.outcome)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			resp.Release()
		})
	}
}
