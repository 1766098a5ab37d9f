package hosts

import "github.com/apoidea/apoidea/crawl/trap"

const (
	// hangsAll timeouts in a row are a problem of the host; where every other URL times out, so many
	// are rare.
	hangsAll = 6
	// A pattern with hangsPart timeouts, and over hangsPart timeouts per answer, comes after others. A
	// retry comes after others from one timeout in hangsAgain answers on.
	hangsPart  = 4
	hangsAgain = 16
	maxHangs   = 16 // patterns
)

// hangs counts the timeouts and answers of a host by URL pattern, with and without the last
// segment, since the first timeout: patterns that time out come after others. In memory alone.
type hangs struct {
	met   bool // the host has answered
	some  bool // a request has timed out
	row   int  // timeouts in a row
	parts map[uint32]hangsOf
}

// hangsOf are the counts of a pattern.
type hangsOf struct{ hung, answered int }

func (p hangsOf) last() bool { return p.hung >= hangsPart && p.hung > hangsPart*p.answered }

func (p hangsOf) often() bool { return p.hung > 0 && p.hung*hangsAgain > p.answered }

// Answered counts an answer.
func (h *hangs) Answered(url string) {
	h.met, h.row = true, 0
	if h.some {
		h.count(url, hangsOf{answered: 1})
	}
}

// Hung counts a timeout. It reports whether that is a problem of the URL alone and not of the host,
// and whether its pattern comes after others from now on.
func (h *hangs) Hung(url string) (alone, found bool) {
	h.some = true
	if h.row++; h.row > hangsAll || !h.met {
		return false, false
	}
	before := h.Last(url, false)
	h.count(url, hangsOf{hung: 1})
	return true, !before && h.Last(url, false)
}

// count adds to the pattern of a URL. If there are too many, those without a timeout are dropped,
// and then all.
func (h *hangs) count(url string, n hangsOf) {
	for _, key := range [...]uint32{trap.Pattern(url), trap.Names(url)} {
		of, known := h.parts[key]
		if !known && len(h.parts) >= maxHangs {
			for other, of := range h.parts {
				if of.hung == 0 {
					delete(h.parts, other)
				}
			}
		}
		if h.parts == nil || len(h.parts) >= maxHangs && !known {
			h.parts = make(map[uint32]hangsOf)
		}
		h.parts[key] = hangsOf{of.hung + n.hung, of.answered + n.answered}
	}
}

// Last reports whether a URL comes after others of its host: its pattern times out, or does so
// often and the URL was tried before.
func (h *hangs) Last(url string, again bool) bool {
	if !h.some {
		return false
	}
	for _, key := range [...]uint32{trap.Pattern(url), trap.Names(url)} {
		if of := h.parts[key]; of.last() || again && of.often() {
			return true
		}
	}
	return false
}
