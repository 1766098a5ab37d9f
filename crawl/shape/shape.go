// Package shape is what the URLs of a host have in common: what is left of them without what varies
// from page to page, and the parts of a host that they are of.
package shape

import (
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
)

// What stands for a part of a URL that varies.
const (
	number = "#" // a number, or a date
	token  = "~" // letters and digits without a word: session identifiers, hashes
)

// maxShape bounds a shape; what is longer has the shape of its beginning.
const maxShape = 512

// Of is a canonical URL without its host and without what varies from page to page: numbers and
// dates, tokens, the values of parameters and their order, segments of the path that are repeated.
func Of(url string) string {
	path, query, asked := strings.Cut(link.PathQuery(url), "?")
	out := make([]byte, 0, 64)
	var met [8]string
	n := 0
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if len(out) > maxShape {
			break
		}
		if segment != "" && slices.Contains(met[:n], segment) {
			continue // which of its segments a growing path repeats, and how often, is all the same
		}
		if n < len(met) {
			met[n] = segment
			n++
		}
		out = appendSegment(append(out, '/'), segment)
	}
	if asked {
		out = appendQuery(append(out, '?'), query)
	}
	return string(out[:min(len(out), maxShape)])
}

// appendQuery appends the sorted names of parameters.
func appendQuery(out []byte, query string) []byte {
	var names []string
	for param := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(param, "=")
		names = append(names, string(appendSegment(nil, name)))
	}
	slices.Sort(names)
	for i, name := range slices.Compact(names) {
		if i > 0 {
			out = append(out, '&')
		}
		if out = append(out, name...); len(out) > maxShape {
			break
		}
	}
	return out
}

// minToken is the length from which letters and digits in turn are a token, longToken that from
// which letters alone are one if they are hexadecimal.
const (
	minToken  = 8
	longToken = 16
)

// appendSegment appends a segment with its numbers and tokens taken out.
func appendSegment(out []byte, s string) []byte {
	for len(s) > 0 {
		n, digits, changes, hex := run(s)
		switch {
		case n == 0:
			out = append(out, s[0])
			n = 1
		case digits == n:
			out = append(out, number...)
		case n >= minToken && digits > 0 && (changes >= 3 || hex), n >= longToken && hex:
			out = append(out, token...)
		default:
			out = appendWord(out, s[:n])
		}
		s = s[n:]
	}
	return out
}

// run measures the letters and digits that a string begins with: their number, how many are digits,
// how often letters and digits change, and whether all are hexadecimal.
func run(s string) (n, digits, changes int, hex bool) {
	hex = true
	last := false
	for n < len(s) {
		c := s[n]
		d := '0' <= c && c <= '9'
		if !d && (c|0x20 < 'a' || c|0x20 > 'z') {
			break
		}
		if n > 0 && d != last {
			changes++
		}
		if d {
			digits++
		}
		hex = hex && (d || c|0x20 <= 'f')
		last = d
		n++
	}
	return n, digits, changes, hex
}

// appendWord appends a word with the numbers in it taken out.
func appendWord(out []byte, s string) []byte {
	inside := false
	for i := range len(s) {
		d := '0' <= s[i] && s[i] <= '9'
		switch {
		case !d:
			out = append(out, s[i])
		case !inside:
			out = append(out, number...)
		}
		inside = d
	}
	return out
}

// Generated says whether a URL, by its shape, looks as if there were others like it without end: it
// asks something, or has a token or a parameter in its path.
func Generated(shape string) bool { return strings.ContainsAny(shape, "?;"+token) }

// Item says whether a URL, by its shape, names one of many items by its number. Several numbers are
// a date or a place, which anybody can make up.
func Item(shape string) bool { return !Generated(shape) && strings.Count(shape, number) == 1 }

// Parts of a URL are the part of its host that it is of, and a narrower one: /wiki/*?action and
// /wiki/*/edit?action. Part is the first segment of the path if it is a folder, and the names of
// the parameters. Narrow has the last segment too where a path is three segments deep or has
// parameters, and of a last segment such as Talk:Name its beginning; else it is empty.
func Parts(url string) (part, narrow string) {
	path, query, asked := strings.Cut(link.PathQuery(url), "?")
	path = strings.TrimPrefix(path, "/")
	head := make([]byte, 0, 64)
	if first, _, folder := strings.Cut(path, "/"); folder {
		head = appendSegment(append(head, '/'), first)
	}
	head = append(head, "/*"...)
	var tail []byte
	if asked {
		tail = appendQuery(append(tail, '?'), query)
	}
	part = clip(append(slices.Clip(head), tail...))
	trimmed := strings.TrimSuffix(path, "/")
	name := trimmed[strings.LastIndexByte(trimmed, '/')+1:]
	space, _, spaced := strings.Cut(name, ":")
	if spaced {
		name = space + ":"
	}
	if asked || spaced || strings.Count(trimmed, "/") >= 2 {
		last := appendSegment([]byte("/"), name)
		narrow = clip(append(append(head, last...), tail...))
	}
	return part, narrow
}

// Hashes are hashes of the part of its host that a URL is of, and of its shape, which is narrower.
func Hashes(url string) [2]uint32 {
	part, _ := Parts(url)
	return [2]uint32{Hash(part), Hash(Of(url))}
}

func clip(b []byte) string { return string(b[:min(len(b), maxShape)]) }

// Hash is 32 bits of FNV-1a, and never 0.
func Hash(s string) uint32 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return max(uint32(h>>32)^uint32(h), 1) // halves
}
