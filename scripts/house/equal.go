package main

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
)

// runLength is how many equal lines in a row count as said twice. Blank lines, comments, imports
// and the space around a line do not count.
const runLength = 10

// equal is a run of lines that stands at two places.
type equal struct {
	A     string `json:"a"`
	LineA int    `json:"line_a"`
	B     string `json:"b"`
	LineB int    `json:"line_b"`
	Lines int    `json:"lines"`
}

// said is one line that counts.
type said struct {
	text   string
	file   int
	number int
}

// equalRuns finds the longest runs; of a run that stands at three places, the second and third are
// held against the first.
func (h *house) equalRuns() []equal {
	var all []said
	var names []string
	for _, r := range h.rooms() {
		for _, f := range r.files {
			all = append(all, f.said(h, len(names))...)
			names = append(names, f.path)
		}
	}
	seed := maphash.MakeSeed()
	first := make(map[uint64]int)
	var found []equal
	for i := 0; i+runLength <= len(all); {
		if all[i].file != all[i+runLength-1].file {
			i++
			continue
		}
		var key maphash.Hash
		key.SetSeed(seed)
		for _, s := range all[i : i+runLength] {
			key.WriteString(s.text)
			key.WriteByte('\n')
		}
		at, seen := first[key.Sum64()]
		if !seen {
			first[key.Sum64()] = i
			i++
			continue
		}
		n := common(all, at, i)
		if n < runLength {
			i++
			continue
		}
		found = append(found, equal{A: names[all[at].file], LineA: all[at].number, B: names[all[i].file], LineB: all[i].number, Lines: n})
		i += n
	}
	slices.SortStableFunc(found, func(a, b equal) int { return cmp.Compare(b.Lines, a.Lines) })
	return found
}

// common is how many lines from a and from b are equal, before b or the end of a file.
func common(all []said, a, b int) int {
	n := 0
	for b+n < len(all) && a+n < b && all[a+n].file == all[a].file && all[b+n].file == all[b].file && all[a+n].text == all[b+n].text {
		n++
	}
	return n
}

func (f *file) said(h *house, index int) []said {
	begin := h.line(f.tree.Name.End())
	for _, s := range f.tree.Imports {
		begin = h.line(s.End())
	}
	var all []said
	for i, text := range f.lines[begin:] {
		text = strings.TrimSpace(text)
		if text == "" || text == ")" || strings.HasPrefix(text, "//") {
			continue
		}
		all = append(all, said{text: text, file: index, number: begin + i + 1})
	}
	return all
}
