package link

import (
	"bytes"
	"errors"
	"fmt"
)

// RulesVersion numbers the rules of [Canonical]. It grows with every change that gives some URL
// another canonical form, because peers that differ would place the same page twice.
const RulesVersion = 2

// MaxURL is the most bytes that a URL may have, raw without its fragment and canonical. Servers
// commonly refuse longer request lines.
const MaxURL = 8192

var (
	// ErrNotCrawlable: not a URL that a crawler may request. Every other error of this package but
	// [ErrTooLong] wraps it.
	ErrNotCrawlable = errors.New("not crawlable")
	// ErrTooLong: longer than [MaxURL].
	ErrTooLong = fmt.Errorf("url over %d bytes", MaxURL)

	errScheme = fmt.Errorf("scheme is neither http nor https: %w", ErrNotCrawlable)
	errSyntax = fmt.Errorf("url does not parse: %w", ErrNotCrawlable)
	errHost   = fmt.Errorf("host is no name that resolves: %w", ErrNotCrawlable)
	errPort   = fmt.Errorf("port belongs to another protocol: %w", ErrNotCrawlable)
)

// Canonical returns the canonical form of an absolute URL. It is parsed by the WHATWG URL standard;
// then
//
//   - schemes other than http and https are refused, and so are the ports of other protocols (the
//     Fetch standard's list, and those of databases, queues and the like, see badPort);
//   - the fragment is dropped, because it is never sent;
//   - credentials are dropped, because a crawler has none of its own and does not use what it
//     finds;
//   - escapes of unreserved characters are unescaped and the others written in upper case, in path
//     and query (RFC 3986, 6.2.2). A lone percent sign stays, and so does an escape that would make
//     a new one together with it;
//   - one dot at the end of the host is dropped: both names resolve alike, and one site must not
//     get two owners. Hosts with empty or overlong labels are refused: no such name resolves. So
//     are hosts that would not parse again, and addresses with signs.
//
// Nothing else is merged: not case, not slashes, not the order of parameters, because servers may
// tell these apart. Canonical of a canonical URL is the URL itself.
func Canonical(raw string) (string, error) {
	var in, out [512]byte
	url, err := AppendCanonical(out[:0], append(in[:0], raw...))
	if err != nil {
		return "", err
	}
	if string(url) == raw {
		return raw, nil
	}
	return string(url), nil
}

// AppendCanonical appends the canonical form of raw to dst. On an error it returns dst as it was.
func AppendCanonical(dst, raw []byte) ([]byte, error) {
	raw, err := trim(raw)
	if err != nil {
		return dst, err
	}
	if rest, ok := bytes.CutPrefix(raw, []byte("https://")); ok {
		if out, ok := appendAuthority(append(dst, "https://"...), rest); ok {
			return bounded(dst, out)
		}
	} else if rest, ok := bytes.CutPrefix(raw, []byte("http://")); ok {
		if out, ok := appendAuthority(append(dst, "http://"...), rest); ok {
			return bounded(dst, out)
		}
	}
	return appendParsed(dst, raw, nil)
}

// trim cuts what the parser would cut or the crawl would drop: white space around and the fragment.
// Where there is a fragment, its number sign stays, since it protects a space before it from being
// taken for white space at the end.
func trim(raw []byte) ([]byte, error) {
	for len(raw) > 0 && raw[0] <= ' ' {
		raw = raw[1:]
	}
	for len(raw) > 0 && raw[len(raw)-1] <= ' ' {
		raw = raw[:len(raw)-1]
	}
	if i := bytes.IndexByte(raw, '#'); i >= 0 {
		raw = raw[:i+1]
	}
	if len(raw) > MaxURL {
		return nil, ErrTooLong
	}
	return raw, nil
}

// bounded returns out, or dst and ErrTooLong when what out adds to dst is longer than a URL may be.
func bounded(dst, out []byte) ([]byte, error) {
	if len(out)-len(dst) > MaxURL {
		return dst, ErrTooLong
	}
	return out, nil
}
