package hosts

import (
	"github.com/apoidea/apoidea/crawl/shape"
)

const (
	// hangsAll requests in a row of which nothing came are the host's and not their URLs': where
	// every other URL hangs so many are rare.
	hangsAll = 6
	// hangsPart of a part of a host have it go behind the others, if it was answered a quarter as
	// often at most; what was tried before goes behind from hangsAgain of that on.
	hangsPart  = 4
	hangsAgain = 16
	// maxHangs bounds the parts of a host of which it is remembered.
	maxHangs = 16
)

// hangs are the requests to a host of which nothing came, though it took them, beside those that it
// answered since the first of them: what hangs goes behind the rest of its host, and does not keep
// that waiting. They are in memory alone, as they are soon learnt again.
type hangs struct {
	met   bool // it has answered
	some  bool // a request has hung
	row   int  // those in a row, without an answer
	parts map[uint32]hangsOf
}

// hangsOf are those of a part of the host.
type hangsOf struct{ hung, answered int }

func (p hangsOf) last() bool { return p.hung >= hangsPart && p.hung > hangsPart*p.answered }

func (p hangsOf) often() bool { return p.hung > 0 && p.hung*hangsAgain > p.answered }

// Answered notes that the host said something about a URL.
func (h *hangs) Answered(url string) {
	h.met, h.row = true, 0
	if h.some {
		h.count(url, hangsOf{answered: 1})
	}
}

// Hung notes that nothing came of a URL. Alone says whether that is the URL's and not the host's,
// found whether it is since now that others like it go last.
func (h *hangs) Hung(url string) (alone, found bool) {
	h.some = true
	if h.row++; h.row > hangsAll || !h.met {
		return false, false
	}
	before := h.Last(url, false)
	h.count(url, hangsOf{hung: 1})
	return true, !before && h.Last(url, false)
}

// count adds to the parts of a URL. Of too many those that are no trouble are forgotten, then all.
func (h *hangs) count(url string, n hangsOf) {
	parts := shape.Hashes(url)
	for _, part := range parts {
		of, known := h.parts[part]
		if !known && len(h.parts) >= maxHangs {
			for part, of := range h.parts {
				if of.hung == 0 {
					delete(h.parts, part)
				}
			}
		}
		if h.parts == nil || len(h.parts) >= maxHangs && !known {
			h.parts = make(map[uint32]hangsOf)
		}
		h.parts[part] = hangsOf{of.hung + n.hung, of.answered + n.answered}
	}
}

// Last says whether a URL goes behind the others of its host: its part hangs, or does so often and
// the URL was tried before.
func (h *hangs) Last(url string, again bool) bool {
	if !h.some {
		return false
	}
	for _, part := range shape.Hashes(url) {
		if of := h.parts[part]; of.last() || again && of.often() {
			return true
		}
	}
	return false
}
