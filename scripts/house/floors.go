package main

import (
	"slices"
	"strings"
)

// The floors, from the top. On the ground four neighbours stand side by side and do not know each
// other; everybody may know what is common: a key of the ring, what a store of records is, and how
// a message of strangers is counted.
var floors = [][]string{{"cmd"}, {"lab"}, {"node"}, {"crawl", "dht", "dedup", "storage"}}

var everybodys = []string{"dht/ring", "dht/counted", "storage/kv", "storage/kv/kvtest"}

const laboratory = "node/lab"

// wing is what of the house a package belongs to: its first folder, but the laboratory is a wing of
// its own, which no room of a peer imports.
func wing(dir string) string {
	if dir == laboratory || strings.HasPrefix(dir, laboratory+"/") {
		return "lab"
	}
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// floor counts from the top; a folder that no floor names stands below all of them.
func floor(dir string) int {
	for i, names := range floors {
		if slices.Contains(names, wing(dir)) {
			return i
		}
	}
	return len(floors)
}

// upward are the imports that run up a floor, or into a neighbour.
func (h *house) upward() []arrow {
	var up []arrow
	for _, a := range h.arrows() {
		from, to := floor(a.From), floor(a.To)
		switch {
		case slices.Contains(everybodys, a.To):
		case to < from, to == from && wing(a.From) != wing(a.To):
			up = append(up, a)
		}
	}
	return up
}

// hall is the room that a package belongs to, when a room is a folder of a wing with all below it:
// crawl/placement with its strategies.
func hall(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// circles are the sets of rooms that import each other, directly or by way of others. Packages
// cannot; folders of packages can.
func (h *house) circles() [][]string {
	next := make(map[string]map[string]bool)
	for _, a := range h.arrows() {
		from, to := hall(a.From), hall(a.To)
		if from == to {
			continue
		}
		if next[from] == nil {
			next[from] = make(map[string]bool)
		}
		next[from][to] = true
	}
	reach := make(map[string]map[string]bool)
	for from := range next {
		reach[from] = reachable(next, from)
	}
	var found [][]string
	in := make(map[string]bool)
	for _, r := range h.rooms() {
		start := hall(r.dir)
		if in[start] || !reach[start][start] {
			continue
		}
		var circle []string
		for other := range reach[start] {
			if reach[other][start] {
				circle = append(circle, other)
				in[other] = true
			}
		}
		slices.Sort(circle)
		found = append(found, circle)
	}
	return found
}

// reachable is all that one can come to over at least one arrow.
func reachable(next map[string]map[string]bool, from string) map[string]bool {
	seen := make(map[string]bool)
	queue := []string{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for to := range next[at] {
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return seen
}
