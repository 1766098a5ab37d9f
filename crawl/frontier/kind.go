package frontier

import "time"

// kind says whether a host can be expected to answer. A host that takes a request and says nothing
// holds a fetcher until a timeout, and a domain may have hundreds of them among those that answer.
// So visits of doubtful hosts are bounded, which leaves fetchers for the others.
type kind int

const (
	doubtful kind = iota // it was never asked, or its last request took long, or came to nothing
	prompt               // its last request was over soon
	kinds
)

// soon is how long the last request of a prompt host took at most.
const soon = 5 * time.Second

func (h *host[T]) kind() kind {
	if h.met && h.hangs == 0 && h.took <= soon {
		return prompt
	}
	return doubtful
}

// doubts counts the open visits of doubtful hosts, all and by group.
type doubts struct {
	most int // zero: any number
	n    int
	of   map[string]int
}

func (d *doubts) begin(group string) {
	if d.of == nil {
		d.of = make(map[string]int)
	}
	d.n++
	d.of[group]++
}

func (d *doubts) end(group string) {
	d.n--
	if d.of[group]--; d.of[group] == 0 {
		delete(d.of, group)
	}
}

func (d *doubts) full() bool { return d.most > 0 && d.n >= d.most }

func (d *doubts) crowded(group string) bool { return d.most > 0 && 2*d.of[group] >= d.most }

// Doubt bounds the visits of doubtful hosts that are open at once; zero: any number. A host that waited for its address is at one that answered, and has its turn all
// the same.
func (f *Frontier[T]) Doubt(most int) { f.doubts.most = most }
