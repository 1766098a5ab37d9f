package adaptive

import (
	"container/list"
	"math"
	"slices"
	"time"
)

// cell is a round trip in milliseconds: measured if dev is 0, else estimated with that deviation.
// mean is NaN if unknown.
type cell struct{ mean, dev float32 }

var unknown = cell{mean: float32(math.NaN())}

func (c cell) known() bool { return c.mean == c.mean }

// exact reports whether it was measured.
func (c cell) exact() bool { return c.known() && c.dev == 0 }

// memory is an earlier site.
type memory struct {
	key     string
	hints   hints
	cells   []cell    // by column; shorter than the columns if peers were added later
	typical cell      // of its cells, for missing ones
	met     time.Time // last measurement, at least in part
	whole   bool      // most candidates measured it
	place   *list.Element
}

// at returns the cell of a column: for a peer that was added later, the typical one.
func (m *memory) at(column int) cell {
	if column < len(m.cells) && m.cells[column].known() {
		return m.cells[column]
	}
	return m.typical
}

// cell returns the cell of a column, and creates it if necessary.
func (m *memory) cell(column int) *cell {
	for len(m.cells) <= column {
		m.cells = append(m.cells, unknown)
	}
	return &m.cells[column]
}

// summarize computes the typical cell.
func (m *memory) summarize() {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, c := range m.cells {
		if c.known() {
			v := float64(c.mean)
			n, sum, squares = n+1, sum+v, squares+v*v
		}
	}
	if n == 0 {
		m.typical = unknown
		return
	}
	mean := sum / n
	dev := math.Sqrt(max(squares/n-mean*mean, 0))
	m.typical = cell{float32(mean), float32(max(dev, mean/2, 1))}
}

// memories are the stored sites, and the peers that have a column in them.
type memories struct {
	max   int
	all   []*memory
	index map[string]int // by key
	// old are the whole memories and the others, of *memory, the most recently learned first. They
	// have separate limits.
	old [2]list.List

	maxPeers int
	columns  map[string]*column
	used     list.List // of *column, most recently used first
}

// blank clears a memory, until its site is placed again.
func (m *memory) blank() { m.hints, m.cells, m.typical = hints{}, nil, unknown }

// column is a peer.
type column struct {
	peer     string
	number   int
	measured int // number of measured sites
	place    *list.Element
	pace     pace
}

func newMemories(most, peers int) *memories {
	return &memories{max: most, index: make(map[string]int), maxPeers: peers, columns: make(map[string]*column)}
}

// column returns the column of a peer; the least recently used one is evicted for a new one.
func (ms *memories) column(peer string) *column {
	if c := ms.columns[peer]; c != nil {
		ms.used.MoveToFront(c.place)
		return c
	}
	c := &column{peer: peer, number: len(ms.columns)}
	if len(ms.columns) >= ms.maxPeers {
		gone := ms.used.Remove(ms.used.Back()).(*column)
		delete(ms.columns, gone.peer)
		c.number = gone.number
		for _, m := range ms.all {
			if c.number < len(m.cells) {
				m.cells[c.number] = unknown
				m.summarize()
			}
		}
	}
	c.place = ms.used.PushFront(c)
	ms.columns[peer] = c
	return c
}

// peers returns all columns, in their order.
func (ms *memories) peers() []*column {
	all := make([]*column, len(ms.columns))
	for _, c := range ms.columns {
		all[c.number] = c
	}
	return all
}

// find returns the memory of a key, nil if there is none.
func (ms *memories) find(key string) *memory {
	if i, ok := ms.index[key]; ok {
		return ms.all[i]
	}
	return nil
}

// at reports whether a stored site shares a hint.
func (ms *memories) at(kind hint, of hints) bool {
	return slices.ContainsFunc(ms.all, func(m *memory) bool { return m.hints[kind] == of[kind] })
}

// add returns the memory for a site, possibly an older one of the same key, and evicts another if
// necessary. A whole memory stays whole.
func (ms *memories) add(key string, whole bool) *memory {
	m := ms.find(key)
	if m != nil {
		ms.list(m.whole).Remove(m.place)
		whole = whole || m.whole
	} else {
		m = &memory{key: key}
		if len(ms.all) < ms.max {
			ms.index[key] = len(ms.all)
			ms.all = append(ms.all, m)
		} else {
			i := ms.forget()
			ms.index[key], ms.all[i] = i, m
		}
	}
	m.whole = whole
	m.place = ms.list(whole).PushFront(m)
	return m
}

// forget evicts the oldest of the kind that exceeds its half, and returns its place.
func (ms *memories) forget() int {
	from := ms.list(ms.list(true).Len() > ms.max/2)
	if from.Len() == 0 {
		from = ms.list(true)
	}
	gone := from.Remove(from.Back()).(*memory)
	i := ms.index[gone.key]
	delete(ms.index, gone.key)
	return i
}

func (ms *memories) list(whole bool) *list.List {
	if whole {
		return &ms.old[0]
	}
	return &ms.old[1]
}
