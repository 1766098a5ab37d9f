package link

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/idna"
)

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
	for _, label := range labels {
		if _, signed := numberOf(label); signed {
			return true
		}
	}
	return false
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
