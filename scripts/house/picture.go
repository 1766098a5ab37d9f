package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Sizes in pixels. All arithmetic is of whole numbers, so the picture is the same on every machine.
const (
	boxWidth, boxHeight = 146, 26
	gapX, gapY          = 14, 34
	margin              = 16
	heading             = 24 // above the packages of a layer
	between             = 44 // layers
)

// perRow is the number of packages in a row, by layer.
var perRow = map[string]int{"crawl": 8, "dht": 2, "dedup": 1, "storage": 2}

const perRowElse = 12

// block is a layer as drawn. A package imports none of its own row or of a row above.
type block struct {
	name          string
	rows          [][]*room
	x, y          int
	width, height int
}

// point is the upper left corner of a package.
type point struct{ x, y int }

// draw returns the diagram: layers from the top, their packages, and the imports that do not follow
// from others.
func (h *house) draw() []byte {
	arrows := h.needed()
	var blocks []*block
	width, y := 0, margin
	for _, names := range floors {
		x, tallest := margin, 0
		var side []*block
		for _, name := range names {
			b := h.block(name)
			if b == nil {
				continue
			}
			b.x, b.y = x, y
			x += b.width + gapX
			tallest = max(tallest, b.height)
			side = append(side, b)
		}
		if len(side) == 0 {
			continue
		}
		for _, b := range side {
			b.height = tallest
		}
		blocks = append(blocks, side...)
		width = max(width, x-gapX+margin)
		y += tallest + between
	}
	for _, b := range blocks { // a single layer of its level spans the diagram
		if len(floors[floor(b.name)]) == 1 {
			b.width = width - 2*margin
		}
	}
	at := place(blocks, arrows)
	return svg(blocks, at, arrows, width, y-between+margin)
}

// needed returns the transitive reduction of the imports: a package that imports b, and c that b
// imports, has an arrow to b only.
func (h *house) needed() []arrow {
	next := make(map[string]map[string]bool)
	for dir, r := range h.rooms {
		next[dir] = r.imports
	}
	reach := make(map[string]map[string]bool)
	for dir := range next {
		reach[dir] = reachable(next, dir)
	}
	return slices.DeleteFunc(h.arrows(), func(a arrow) bool {
		for over := range next[a.from] {
			if over != a.to && reach[over][a.to] {
				return true
			}
		}
		return false
	})
}

func (h *house) block(name string) *block {
	level := make(map[string]int)
	var levelOf func(r *room) int
	levelOf = func(r *room) int {
		if l, ok := level[r.dir]; ok {
			return l
		}
		l := 0
		for to := range r.imports {
			if wing(to) == name {
				l = max(l, levelOf(h.rooms[to])+1)
			}
		}
		level[r.dir] = l
		return l
	}
	var levels [][]*room
	for _, r := range h.sorted() {
		if wing(r.dir) != name {
			continue
		}
		l := levelOf(r)
		for len(levels) <= l {
			levels = append(levels, nil)
		}
		levels[l] = append(levels[l], r)
	}
	if len(levels) == 0 {
		return nil
	}
	most := perRowElse
	if n, ok := perRow[name]; ok {
		most = n
	}
	b := &block{name: name}
	widest := 0
	for _, rooms := range slices.Backward(levels) {
		for part := range slices.Chunk(rooms, most) {
			b.rows = append(b.rows, part)
			widest = max(widest, len(part))
		}
	}
	b.width = widest*(boxWidth+gapX) + gapX
	b.height = heading + len(b.rows)*(boxHeight+gapY) - gapY + gapX
	return b
}

// place assigns positions. A row is ordered by the mean position of the packages above that import
// its packages, or of those below that they import.
func place(blocks []*block, arrows []arrow) map[string]point {
	at := make(map[string]point)
	for range 4 {
		for _, b := range blocks {
			for i, row := range b.rows {
				if len(at) > 0 {
					slices.SortStableFunc(row, func(a, c *room) int { return cmp.Compare(pull(a, at, arrows), pull(c, at, arrows)) })
				}
				x := b.x + (b.width-len(row)*(boxWidth+gapX)+gapX)/2
				for j, r := range row {
					at[r.dir] = point{x + j*(boxWidth+gapX), b.y + heading + i*(boxHeight+gapY)}
				}
			}
		}
	}
	return at
}

// pull returns the mean horizontal position of the other ends of a package's arrows.
func pull(r *room, at map[string]point, arrows []arrow) int {
	sum, n := 0, 0
	for _, a := range arrows {
		switch r.dir {
		case a.from:
			sum, n = sum+at[a.to].x, n+1
		case a.to:
			sum, n = sum+at[a.from].x, n+1
		}
	}
	if n == 0 {
		return at[r.dir].x
	}
	return sum / n
}

const look = `<style>
text { font: 11px ui-monospace, monospace; fill: #222 }
.wing { fill: #f4f1ea; stroke: #d8d0c0 }
.wingname { font-weight: bold; fill: #8a6d3b }
.room { fill: #fff; stroke: #b9a77c }
.arrow { fill: none; stroke: #7a8aa0; stroke-opacity: .55 }
.up { stroke: #d02020; stroke-opacity: 1; stroke-width: 2 }
.head { fill: #7a8aa0 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd }
.paper { fill: #181818 }
.wing { fill: #22211e; stroke: #4a4436 }
.wingname { fill: #d0ab62 }
.room { fill: #2c2a26; stroke: #7b6d4c }
}
</style>
<defs><marker id="head" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" orient="auto"><path class="head" d="M0 0L6 3L0 6z"/></marker></defs>
`

func svg(blocks []*block, at map[string]point, arrows []arrow, width, height int) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n", width, height, width, height)
	fmt.Fprintf(&out, "<title>Packages and their imports</title>\n%s", look)
	fmt.Fprintf(&out, "<rect class=\"paper\" width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width, height)
	for _, b := range blocks {
		fmt.Fprintf(&out, "<rect class=\"wing\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", b.x, b.y, b.width, b.height)
		fmt.Fprintf(&out, "<text class=\"wingname\" x=\"%d\" y=\"%d\">%s</text>\n", b.x+10, b.y+16, b.name)
	}
	for _, a := range arrows {
		from, to := at[a.from], at[a.to]
		class := "arrow"
		if a.upward() {
			class = "arrow up"
		}
		x1, y1, x2, y2 := from.x+boxWidth/2, from.y+boxHeight, to.x+boxWidth/2, to.y-1
		bend := max((y2-y1)/2, 20)
		fmt.Fprintf(&out, "<path class=\"%s\" marker-end=\"url(#head)\" d=\"M%d %dC%d %d %d %d %d %d\"><title>%s imports %s</title></path>\n",
			class, x1, y1, x1, y1+bend, x2, y2-bend, x2, y2, a.from, a.to)
	}
	for _, b := range blocks {
		for _, row := range b.rows {
			for _, r := range row {
				r.draw(&out, b.name, at[r.dir])
			}
		}
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// draw writes one package, without its size: the diagram changes with packages and imports only.
func (r *room) draw(out *bytes.Buffer, wing string, p point) {
	name := strings.TrimPrefix(strings.TrimPrefix(r.dir, wing), "/")
	if name == "" {
		name = wing
	}
	fmt.Fprintf(out, "<rect class=\"room\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"/>\n", p.x, p.y, boxWidth, boxHeight)
	fmt.Fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", p.x+boxWidth/2, p.y+boxHeight/2+4, name)
}
