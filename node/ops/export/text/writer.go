package text

import (
	"bytes"
	"strings"
)

// writer collects the text of elements: like innerText of a browser, it joins white space and
// separates blocks by lines.
type writer struct {
	out       []byte
	lines     int  // line ends before the next text
	separator byte // before the next text on the same line, if not 0
	pre       int  // open elements in which white space counts
}

func (w *writer) reset() { *w = writer{out: w.out[:0]} }

func (w *writer) full() bool { return len(w.out) > MaxBytes }

// String returns the text, and whether it is cut.
func (w *writer) String() (string, bool) {
	return strings.ToValidUTF8(cut(string(w.out), MaxBytes), "\uFFFD"), w.full()
}

// tag processes a start or end tag.
func (w *writer) tag(el element, start bool) {
	switch el {
	case block:
		w.lines = max(w.lines, 1)
	case paragraph:
		w.lines = 2
	case br:
		w.lines = min(w.lines+1, 2)
	case cell:
		if start && w.lines == 0 {
			w.separator = '\t'
		}
	case pre:
		w.lines = max(w.lines, 1)
		if start {
			w.pre++
		} else {
			w.pre = max(w.pre-1, 0)
		}
	}
}

// text appends text without markup.
func (w *writer) text(s []byte) {
	if w.pre > 0 && len(s) > 0 {
		s = bytes.ReplaceAll(s, []byte("\r\n"), []byte("\n"))
		if w.lines > 0 && s[0] == '\n' { // not part of the element
			s = s[1:]
		}
		w.begin()
		w.out = append(w.out, s...)
		return
	}
	for i := 0; i < len(s); {
		if s[i] <= ' ' {
			if w.separator == 0 {
				w.separator = ' '
			}
			i++
			continue
		}
		from := i
		for i < len(s) && s[i] > ' ' {
			i++
		}
		w.begin()
		w.out = append(w.out, s[from:i]...)
	}
}

// begin writes what separates the next text from the last.
func (w *writer) begin() {
	switch {
	case len(w.out) == 0:
	case w.lines == 1 && w.out[len(w.out)-1] == '\n': // of preformatted text
	case w.lines > 0:
		w.out = append(w.out, "\n\n"[:w.lines]...)
	case w.separator != 0:
		w.out = append(w.out, w.separator)
	}
	w.lines, w.separator = 0, 0
}
