package deflate

import "math/bits"

const (
	// endOfBlock is the symbol behind the 256 literals, which lengths follow.
	endOfBlock      = 256
	lengthSymbols   = 29
	distanceSymbols = 30
	maxSymbols      = endOfBlock + 1 + lengthSymbols
	// longest is how many bits a word has at most, so that those of four literals fit into 64 beside seven that wait; longestLength the same of words for lengths.
	longest       = 14
	longestLength = 7
	// wordBits is what a word has in code.word.
	wordBits = 16
)

// code is how often each symbol of an alphabet stands in a block, and the code made of it.
type code struct {
	freq   [maxSymbols]uint32
	length [maxSymbols]uint8
	word   [maxSymbols]uint32 // the first bit lowest, and above 16 bits the length
	n      int                // symbols
}

// clear forgets what was counted.
func (c *code) clear(symbols int) {
	c.n = symbols
	clear(c.freq[:symbols])
}

// count counts literals.
func (c *code) count(literals []byte) {
	for _, v := range literals {
		c.freq[v]++
	}
}

// shortList is below how many symbols they are sorted one by one.
const shortList = 24

// used is a symbol that stands in the block.
type used struct {
	freq   uint32
	symbol uint16
}

// make makes a code with no word longer than so many bits: Huffman's, by Moffat and Katajainen's "In-Place Calculation of Minimum-Redundancy Codes", and
// where that has longer words they are made shorter at the cost of others.
func (c *code) make(most int) {
	var room, spare [maxSymbols]used
	list := room[:0]
	for i, f := range c.freq[:c.n] {
		if f > 0 {
			list = append(list, used{f, uint16(i)}) //nolint:gosec // few symbols
		}
	}
	clear(c.length[:c.n])
	sorted := sortByFreq(list, spare[:len(list)])
	var many [32]int // words of each length
	depths(sorted, &many)
	limit(&many, most)
	next := len(sorted)
	for length := 1; length <= most; length++ {
		for range many[length] {
			next--
			c.length[sorted[next].symbol] = uint8(length) //nolint:gosec // at most 15
		}
	}
	c.words(&many)
}

// sortByFreq sorts by how often symbols stand there, with the help of a slice of the same length, and returns where the result is.
func sortByFreq(list, spare []used) []used {
	if len(list) < shortList {
		for i, u := range list {
			for ; i > 0 && list[i-1].freq > u.freq; i-- {
				list[i] = list[i-1]
			}
			list[i] = u
		}
		return list
	}
	for shift := 0; shift < 16; shift += 8 {
		var at [256]uint16
		for _, u := range list {
			at[u.freq>>shift&255]++
		}
		if shift > 0 && int(at[0]) == len(list) {
			break
		}
		sum := uint16(0)
		for i, n := range at {
			at[i] = sum
			sum += n
		}
		for _, u := range list {
			digit := u.freq >> shift & 255
			spare[at[digit]] = u
			at[digit]++
		}
		list, spare = spare, list
	}
	return list
}

// depths counts the leaves of each depth of Huffman's tree of sorted symbols.
func depths(sorted []used, many *[32]int) {
	n := len(sorted)
	if n < 2 {
		many[1] = n
		return
	}
	var a [maxSymbols]uint32
	for i, u := range sorted {
		a[i] = u.freq
	}
	// a[:next] are inner nodes: their weight, and once they have a parent its index.
	a[0] += a[1]
	root, leaf := 0, 2
	for next := 1; next < n-1; next++ {
		sum := uint32(0)
		for range 2 {
			if leaf >= n || root < next && a[root] < a[leaf] {
				sum += a[root]
				a[root] = uint32(next) //nolint:gosec // few symbols
				root++
			} else {
				sum += a[leaf]
				leaf++
			}
		}
		a[next] = sum
	}
	a[n-2] = 0
	for i := n - 3; i >= 0; i-- {
		a[i] = a[a[i]] + 1 // how deep it is
	}
	free, node := 1, n-2
	for depth := uint32(0); free > 0; depth++ {
		inner := 0
		for node >= 0 && a[node] == depth {
			inner++
			node--
		}
		many[depth] += free - inner
		free = 2 * inner
	}
}

// limit makes words that are too long shorter, until all of them are words of a code again.
func limit(many *[32]int, most int) {
	long := 0
	for i := most + 1; i < len(many); i++ {
		long += many[i]
		many[i] = 0
	}
	if long == 0 {
		return
	}
	many[most] += long
	total := 0
	for i := 1; i <= most; i++ {
		total += many[i] << (most - i)
	}
	for ; total > 1<<most; total-- {
		many[most]--
		for i := most - 1; i > 0; i-- {
			if many[i] > 0 {
				many[i]--
				many[i+1] += 2
				break
			}
		}
	}
}

// words gives each symbol its word, those of one length in order.
func (c *code) words(many *[32]int) {
	var next [16]uint16
	word := 0
	for length := 1; length < len(next); length++ {
		next[length] = uint16(word) //nolint:gosec // at most 15 bits
		word = (word + many[length]) << 1
	}
	for i, length := range c.length[:c.n] {
		if length > 0 {
			c.word[i] = uint32(bits.Reverse16(next[length])>>(16-length)) | uint32(length)<<wordBits
			next[length]++
		}
	}
}

// bits is how many the words of all symbols take, with those that follow each of them.
func (c *code) bits(extra *[maxSymbols]uint8) (n int) {
	for i, f := range c.freq[:c.n] {
		n += int(f) * int(c.length[i]+extra[i])
	}
	return n
}

// ends is the number of symbols up to the last one in use.
func (c *code) ends() int {
	n := c.n
	for c.length[n-1] == 0 {
		n--
	}
	return n
}

// lengthSymbol is the symbol of each length of a match, lengthExtra how many bits follow it, lengthBase the least of its lengths.
var lengthSymbol, lengthExtra, lengthBase = func() (symbol [maxMatch + 1]uint16, extra [maxSymbols]uint8, base [maxSymbols]uint16) {
	length := 3
	for i := range lengthSymbols {
		s, few := endOfBlock+1+i, max(i/4-1, 0)
		if i == lengthSymbols-1 {
			length, few = maxMatch, 0
		}
		extra[s], base[s] = uint8(few), uint16(length) //nolint:gosec // at most 258
		for range 1 << few {
			if length <= maxMatch {
				symbol[length] = uint16(s) //nolint:gosec // few symbols
			}
			length++
		}
	}
	return symbol, extra, base
}()

// distanceExtra is how many bits follow the symbol of a distance.
var distanceExtra = func() (extra [maxSymbols]uint8) {
	for i := range distanceSymbols {
		extra[i] = uint8(max(i/2-1, 0)) //nolint:gosec // at most 13
	}
	return extra
}()

// distanceSymbol is the symbol of a distance less one.
func distanceSymbol(d int) int {
	if d < 2 {
		return d
	}
	n := bits.Len(uint(d)) - 1 //nolint:gosec // not negative
	return 2*n + d>>(n-1)&1
}
