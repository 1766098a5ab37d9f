package novelty

import (
	"math/bits"
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

// Shape is a canonical URL without its host and without what varies from page to page: numbers and
// dates, tokens, the values of parameters and their order, segments of the path that are repeated.
func Shape(url string) string {
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

// minToken is the length from which letters and digits in turn are a token, longToken that from which letters alone are one if they are hexadecimal.
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

// keysOf a URL: its shape, the folders of one and of two segments that it lies in, what is asked for in its first folder, its tail and its form.
func keysOf(url string) (k keys) {
	k[atShape] = hash(Shape(url))
	for n := 1; n <= 2; n++ {
		if a := area(url, n); a != "" {
			k[atArea+n-1] = hash(a)
		}
	}
	if a := asked(url); a != "" {
		k[atAsked] = hash(a)
	}
	if t := tail(url); t != "" {
		k[atTail] = hash(t)
	}
	k[atForm] = hash(Form(url))
	return k
}

// form is the text of key i of a URL.
func form(url string, i int) string {
	switch i {
	case atShape:
		return Shape(url)
	case atAsked:
		return asked(url)
	case atTail:
		return tail(url)
	case atForm:
		return Form(url)
	default:
		return area(url, i-atArea+1)
	}
}

// Form is what tells the kinds of pages of a host apart, whatever each of them is about: the first segment of the path if it is a folder, and the names of
// the parameters.
func Form(url string) string { return formOf(url, "") }

// asked is the form of all that asks for something in the first folder, whatever the parameters: /wiki/*?... Empty if a URL has none.
func asked(url string) string {
	path, _, query := strings.Cut(url, "?")
	if !query {
		return ""
	}
	return formOf(path, "") + "?..."
}

// tail is the form with the last segment of the path, where it stands two folders deep at least: /wiki/*/history. Empty if it does not.
func tail(url string) string {
	path, _, _ := strings.Cut(link.PathQuery(url), "?")
	path = strings.TrimSuffix(path, "/")
	if strings.Count(path, "/") < 3 {
		return ""
	}
	return formOf(url, string(appendSegment([]byte("/"), path[strings.LastIndexByte(path, '/')+1:])))
}

// formOf is a form with something behind the star.
func formOf(url, last string) string {
	path, query, asked := strings.Cut(link.PathQuery(url), "?")
	out := make([]byte, 0, 64)
	if first, _, folder := strings.Cut(strings.TrimPrefix(path, "/"), "/"); folder {
		out = appendSegment(append(out, '/'), first)
	}
	out = append(append(out, "/*"...), last...)
	if asked {
		out = appendQuery(append(out, '?'), query)
	}
	return string(out[:min(len(out), maxShape)])
}

// area is the folder of n segments that a URL lies in; empty if there is none.
func area(url string, n int) string {
	path, _, _ := strings.Cut(link.PathQuery(url), "?")
	end := 0
	for range n {
		next := strings.IndexByte(path[end+1:], '/')
		if next < 0 {
			return ""
		}
		end += 1 + next
	}
	out := make([]byte, 0, 64)
	for segment := range strings.SplitSeq(path[1:end], "/") {
		out = appendSegment(append(out, '/'), segment)
	}
	return string(append(out[:min(len(out), maxShape)], "/..."...))
}

// hash is 32 bits of FNV-1a, and never 0.
func hash(s string) uint32 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return max(uint32(h>>32)^uint32(h), 1) //nolint:gosec // halves
}

func distance(a, b uint64) int { return bits.OnesCount64(a ^ b) }
