package dedup

// layers is a scalable Bloom filter: a first layer as large as the paper's, then each twice as
// large as the one before, with half its false-positive rate. So the sum over all layers stays
// below twice the first, 0.00092.
type layers struct {
	list []bits
	full int // maximum keys of the last layer
}

func newLayers() *layers {
	l := &layers{}
	l.grow()
	return l
}

// grow adds a layer. Halving the rate costs 1/ln 2 = 1.44 more bits per key, and one more hash
// function.
func (l *layers) grow() {
	i := len(l.list)
	l.full = PaperURLs << i
	perKey := float64(PaperBits/PaperURLs) + 1.4427*float64(i)
	l.list = append(l.list, newBits(uint(perKey*float64(l.full)), PaperHashes+uint(i)))
}

func (l *layers) test(hash uint64) bool {
	// The last layers hold most keys.
	for i := len(l.list) - 1; i >= 0; i-- {
		if l.list[i].test(hash) {
			return true
		}
	}
	return false
}

func (l *layers) add(hash uint64) {
	if l.test(hash) {
		return
	}
	if l.list[len(l.list)-1].count >= l.full {
		l.grow()
	}
	l.list[len(l.list)-1].add(hash)
}

func (l *layers) bytes() int {
	n := 0
	for i := range l.list {
		n += l.list[i].bytes()
	}
	return n
}

func (l *layers) len() int {
	n := 0
	for i := range l.list {
		n += l.list[i].count
	}
	return n
}

func (l *layers) falsePositive() float64 {
	right := 1.0
	for i := range l.list {
		right *= 1 - l.list[i].falsePositive()
	}
	return 1 - right
}
