package trap

import (
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
)

const (
	maxExtension = 5  // bytes; a longer one is part of a name
	minOpaque    = 16 // bytes of a segment with letters and digits that is an identifier
	minHex       = 8  // bytes of a hexadecimal segment that is an identifier

	maxSegments = 25   // rule 1
	maxLength   = 2000 // rule 1: bytes of a URL
	maxRepeats  = 3    // rule 1: how often a run of one to maxCycle segments may occur in a row
	maxCycle    = 4
)

// Pattern hashes what URLs of one kind have in common: the path without its last segment, digits
// and opaque identifiers masked; the extension of that segment; the sorted query keys. Never 0.
func Pattern(url string) uint32 { return pattern32(url, false) }

// Names hashes the pattern of a URL together with its last segment, digits masked. It is never 0.
func Names(url string) uint32 { return pattern32(url, true) }

func pattern32(url string, name bool) uint32 {
	path, query, _ := strings.Cut(link.PathQuery(url), "?")
	at := strings.LastIndexByte(path, '/')
	dir, last := path[:max(at, 0)], path[at+1:]
	h := newHash()
	for segment := range strings.SplitSeq(dir, "/") {
		h.masked(segment)
		h.byte('/')
	}
	if name {
		h.masked(last)
	} else if dot := strings.LastIndexByte(last, '.'); dot >= 0 && len(last)-dot-1 <= maxExtension {
		h.masked(last[dot:])
	}
	for _, key := range keys(query) {
		h.byte('&')
		h.masked(key)
	}
	return max(uint32(h>>32)^uint32(h), 1)
}

// combination hashes the path of a URL whose query has two or more keys; 0 for other URLs.
func combination(url string) uint32 {
	path, query, _ := strings.Cut(link.PathQuery(url), "?")
	if len(keys(query)) < 2 {
		return 0
	}
	h := newHash()
	h.text(path)
	h.byte('?')
	return max(uint32(h>>32)^uint32(h), 1)
}

// keys are the sorted different keys of a query.
func keys(query string) (list []string) {
	for len(query) > 0 {
		var pair string
		if i := strings.IndexAny(query, "&;"); i >= 0 {
			pair, query = query[:i], query[i+1:]
		} else {
			pair, query = query, ""
		}
		if key, _, _ := strings.Cut(pair, "="); key != "" {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// hash is FNV-1a of 64 bits, in place of hash/fnv without its interface.
type hash uint64

func newHash() hash { return 14695981039346656037 }

func (h *hash) byte(c byte) { *h = (*h ^ hash(c)) * 1099511628211 }

func (h *hash) text(s string) {
	for i := range len(s) {
		h.byte(s[i])
	}
}

// masked adds a segment with runs of digits as one, and an opaque identifier as such.
func (h *hash) masked(s string) {
	s, _, _ = strings.Cut(s, ";") // path parameters, such as session identifiers
	if opaque(s) {
		h.byte('*')
		return
	}
	digit := false
	for i := range len(s) {
		c := s[i]
		if '0' <= c && c <= '9' {
			if !digit {
				h.byte('0')
			}
			digit = true
			continue
		}
		digit = false
		h.byte(c)
	}
}

// opaque reports whether a segment is an identifier without meaning: hexadecimal, or long with
// letters and digits that alternate.
func opaque(s string) bool {
	if len(s) < minHex {
		return false
	}
	digits, letters, changes, hex := 0, 0, 0, true
	was := byte(0)
	for i := range len(s) {
		c := s[i]
		var class byte
		switch {
		case '0' <= c && c <= '9':
			digits++
			class = 'd'
		case 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F':
			letters++
			class = 'l'
		case c == '-' || c == '_':
			continue
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
			letters++
			class, hex = 'l', false
		default:
			return false
		}
		if was != 0 && class != was {
			changes++
		}
		was = class
	}
	if digits == 0 || letters == 0 {
		return false
	}
	return hex || len(s) >= minOpaque && changes >= 4
}

// Structure reports whether a URL has the structure of a trap (rule 1): a run of one to four path
// segments more than three times in a row, unless they are numbers, over 25 segments, or over 2,000
// bytes.
func Structure(url string) bool {
	if len(url) > maxLength {
		return true
	}
	path, _, _ := strings.Cut(link.PathQuery(url), "?")
	if strings.Count(path, "/") <= maxRepeats {
		return false
	}
	var segments [maxSegments]string
	n := 0
	for segment := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if n == maxSegments {
			return true
		}
		segments[n] = segment
		n++
	}
	for cycle := 1; cycle <= maxCycle; cycle++ {
		if repeats(segments[:n], cycle) {
			return true
		}
	}
	return false
}

// repeats reports whether a run of so many segments occurs more than maxRepeats times in a row.
func repeats(segments []string, cycle int) bool {
	same, words := 0, false // segments in a row that equal the one a cycle before; not all are numbers
	for i := cycle; i < len(segments); i++ {
		if segments[i] != segments[i-cycle] {
			same, words = 0, false
			continue
		}
		words = words || strings.Trim(segments[i], "0123456789") != ""
		if same++; same >= cycle*maxRepeats && words {
			return true
		}
	}
	return false
}
