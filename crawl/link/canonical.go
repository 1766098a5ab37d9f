package link

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/idna"
	"golang.org/x/text/encoding"
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

// encodeQuery encodes the query of an http href in a document's encoding (URL standard,
// "percent-encode after encoding"), so that the parser, which supports UTF-8 only, receives ASCII.
// Characters missing from the encoding become numeric character references, as in browsers.
func encodeQuery(href []byte, enc encoding.Encoding) []byte {
	mark := bytes.IndexByte(href, '?')
	if mark < 0 || bytes.IndexFunc(href[mark:], func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		return href
	}
	// White space that the parser would remove must not reach the encoder.
	text := bytes.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, href[mark+1:])
	number := bytes.HasSuffix(text, []byte("#"))
	text = bytes.TrimSuffix(text, []byte("#"))

	out := append([]byte(nil), href[:mark+1]...)
	if whole, err := enc.NewEncoder().Bytes(text); err == nil {
		out = appendEncoded(out, whole)
	} else {
		out = appendRunes(out, text, enc)
	}
	if number {
		out = append(out, '#')
	}
	return out
}

// appendRunes encodes character by character.
func appendRunes(dst, text []byte, enc encoding.Encoding) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if coded, err := enc.NewEncoder().Bytes(text[:n]); err == nil && r != utf8.RuneError {
			dst = appendEncoded(dst, coded)
		} else {
			dst = fmt.Appendf(dst, "%%26%%23%d%%3B", r)
		}
		text = text[n:]
	}
	return dst
}

// appendEncoded percent-encodes by the special-query set.
func appendEncoded(dst, coded []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range coded {
		if c <= ' ' || c > '~' || c == '"' || c == '#' || c == '<' || c == '>' || c == '\'' {
			dst = append(dst, '%', digits[c>>4], digits[c&0xf])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// Limits of the parser's input. Its work grows with the square of the length of host and
// credentials, so a page of such links would occupy a peer for minutes. All valid DNS names are
// shorter in any spelling.
const (
	maxAuthority = 1024 // credentials, host and port as written, in bytes
	maxDecoded   = 512  // host in UTF-8, in bytes
)

// mapped is the ASCII form of a host by the mapping of UTS 46 alone, in which the parser detects
// numbers.
var mapped = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.VerifyDNSLength(false))

// refused is a host that the parser rejects: unclosed brackets.
const refused = "["

// beforeHost is called by the parser for each host before it is parsed. It rejects what the parser
// accepts and the URL standard does not: nested brackets, and addresses with signed numbers, which
// Go's conversion accepts. A single such number is a name by the standard (http://-1/), but none
// that resolves.
func beforeHost(u *whatwg.Url, host string) string {
	if u.Scheme() != "http" && u.Scheme() != "https" {
		return host
	}
	if strings.HasPrefix(host, "[") {
		if strings.Count(host, "[") > 1 || strings.Count(host, "]") > 1 {
			return refused
		}
		return host
	}
	plain := decodeHost(host)
	if len(plain) > maxDecoded || signedAddress(plain) {
		return refused
	}
	if strings.Contains(plain, "ẞ") {
		return smallSharpS(plain)
	}
	return host
}

// smallSharpS replaces ẞ by ß in a decoded host, as UTS 46 does from Unicode 15.1 on; the parser's
// tables are older, and replace it by ss. A host that still has a percent sign is invalid.
func smallSharpS(host string) string {
	if strings.Contains(host, "%") {
		return refused
	}
	return strings.ReplaceAll(host, "ẞ", "ß")
}

// decodeHost decodes the escapes of a host.
func decodeHost(host string) string {
	if strings.IndexByte(host, '%') < 0 {
		return host
	}
	out := make([]byte, 0, len(host))
	for i := 0; i < len(host); {
		if c, ok := unescape(host[i:]); ok {
			out = append(out, c)
			i += 3
			continue
		}
		out = append(out, host[i])
		i++
	}
	return string(out)
}

// signedAddress reports whether a host ends in a number, signed or not, and one of its labels is a
// signed number.
func signedAddress(host string) bool {
	if strings.IndexFunc(host, func(r rune) bool { return r == '+' || r == '-' || r >= utf8.RuneSelf }) < 0 {
		return false
	}
	host, _ = mapped.ToASCII(host) // after an error the partial form, which the parser uses too
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if number, _ := numberOf(labels[len(labels)-1]); !number {
		return false
	}
	return slices.ContainsFunc(labels, func(label string) bool {
		_, signed := numberOf(label)
		return signed
	})
}

// numberOf reports whether a label is a number of an IPv4 address (URL standard, "IPv4 number
// parser"), apart from a sign, and whether it has one.
func numberOf(label string) (number, signed bool) {
	base := 10
	if rest, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		label, base = rest, 16
	} else if len(label) > 1 && label[0] == '0' {
		label, base = label[1:], 8
	}
	if label == "" {
		return base == 16, false
	}
	if label[0] == '+' || label[0] == '-' {
		label, signed = label[1:], true
	}
	_, err := strconv.ParseUint(label, base, 64)
	return err == nil || strings.Trim(label, "0123456789") == "" && label != "", signed
}

// stable reports whether a parsed host is its own canonical form. The parser outputs names that it
// does not accept, such as the punycode of U+2260, and a host that other peers may reject must not
// be distributed.
func stable(scheme string, host []byte) bool {
	odd := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' }
	if bytes.IndexFunc(host, odd) < 0 && plainHost(host) {
		return true
	}
	u, err := parser.Parse(scheme + "://" + string(host) + "/")
	return err == nil && u.Host() == string(host)
}

// shorten truncates credentials, which are removed anyway, to one byte, and rejects an overlong
// authority.
func shorten(raw []byte) ([]byte, error) {
	begin, sure := authorityOf(raw)
	if begin < 0 {
		return raw, nil
	}
	end := len(raw)
	if i := bytes.IndexAny(raw[begin:], `/\?#`); i >= 0 {
		end = begin + i
	}
	if at := bytes.LastIndexByte(raw[begin:end], '@'); sure && at > 1 {
		short := append(append(make([]byte, 0, len(raw)-at+1), raw[:begin]...), 'u')
		short = append(short, raw[begin+at:]...)
		raw, end = short, end-at+1
	}
	if end-begin > maxAuthority {
		return nil, errHost
	}
	return raw, nil
}

// authorityOf returns the index of the authority in a trimmed URL; -1 without one. Without two
// slashes it depends on the base whether there is one, and sure is false.
func authorityOf(raw []byte) (begin int, sure bool) {
	i := 0
	for i < len(raw) && (raw[i] > ' ' && strings.IndexByte(`:/\?#@`, raw[i]) < 0 || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	scheme := i < len(raw) && raw[i] == ':'
	switch {
	case scheme:
		i++
	default:
		i = 0
	}
	slashes := 0
	for ; i < len(raw) && strings.IndexByte("/\\\t\r\n", raw[i]) >= 0; i++ {
		if raw[i] == '/' || raw[i] == '\\' {
			slashes++
		}
	}
	if !scheme && slashes < 2 {
		return -1, false
	}
	return i, slashes >= 2
}
