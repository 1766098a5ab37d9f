package link

import (
	"bytes"
	"fmt"
)

// RulesVersion is the version of the rules of [Canonical]. It increases with every change of a
// canonical form, because peers with different rules would store the same page twice.
const RulesVersion = 2

// MaxURL is the limit of a URL in bytes, raw without its fragment and canonical. Servers commonly
// reject longer request lines.
const MaxURL = 8192

var (
	// ErrNotCrawlable: a crawler must not request the URL. All errors of this package except
	// [ErrTooLong] wrap it.
	ErrNotCrawlable error = notCrawlable("not crawlable")
	// ErrTooLong: longer than [MaxURL].
	ErrTooLong = fmt.Errorf("URL exceeds %d bytes", MaxURL)

	errScheme = notCrawlable("scheme must be http or https")
	errSyntax = notCrawlable("invalid URL")
	errHost   = notCrawlable("invalid host")
	errPort   = notCrawlable("port of another protocol")
)

// notCrawlable is an [ErrNotCrawlable] with its reason.
type notCrawlable string

func (e notCrawlable) Error() string      { return string(e) }
func (notCrawlable) Is(target error) bool { return target == ErrNotCrawlable }

// Canonical returns the canonical form of an absolute URL. It is parsed by the WHATWG URL standard;
// then
//
//   - schemes other than http and https are rejected, and so are the ports of other protocols (the
//     Fetch standard's list, and those of databases, queues and the like, see badPort);
//   - the fragment is removed, because it is never sent;
//   - credentials are removed, because a crawler has none of its own and does not use any that it
//     finds;
//   - escapes of unreserved characters are decoded and the others written in upper case, in path
//     and query (RFC 3986, 6.2.2). A lone percent sign is unchanged, and so is an escape that would
//     make a new one together with it;
//   - one dot at the end of the host is removed: both names resolve alike, and one site must not
//     get two owners. Hosts with empty or overlong labels are rejected: no such name resolves. So
//     are hosts that would not parse again, and addresses with signs.
//
// Nothing else is normalized: not case, not slashes, not the order of parameters, because servers
// may distinguish these. Canonical is idempotent.
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

// AppendCanonical appends the canonical form of raw to dst. On an error it returns dst unchanged.
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

// trim removes surrounding white space and the fragment. The number sign of a fragment is retained,
// since it protects a space before it from being removed as trailing white space.
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

// bounded returns out, or dst and ErrTooLong if out exceeds dst by more than MaxURL.
func bounded(dst, out []byte) ([]byte, error) {
	if len(out)-len(dst) > MaxURL {
		return dst, ErrTooLong
	}
	return out, nil
}
